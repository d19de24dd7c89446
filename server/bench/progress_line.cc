#include "server/bench/progress_line.h"

namespace hydrant::server::bench {
namespace {

constexpr double kTerminalSeconds = 0.5;
constexpr double kPlainSeconds = 10;

}  // namespace

ProgressLine::ProgressLine(FILE* out, bool terminal, int64_t tokens)
    : out_(out), terminal_(terminal), last_tokens_(tokens) {}

void ProgressLine::Update(double seconds, const LoadDriver::Progress& progress, int64_t tokens) {
  const double passed = seconds - last_seconds_;
  if (passed < (terminal_ ? kTerminalSeconds : kPlainSeconds)) return;
  std::fprintf(out_, "%s%.1f s: %lld done, %lld open, %lld not served, %.0f tokens/s%s",
               terminal_ ? "\r\x1b[K" : "", seconds, static_cast<long long>(progress.ended),
               static_cast<long long>(progress.open), static_cast<long long>(progress.not_served),
               static_cast<double>(tokens - last_tokens_) / passed, terminal_ ? "" : "\n");
  std::fflush(out_);
  last_seconds_ = seconds;
  last_tokens_ = tokens;
}

void ProgressLine::Finish() {
  if (!terminal_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
}

}  // namespace hydrant::server::bench
