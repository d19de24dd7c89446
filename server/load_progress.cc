#include "server/load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace hydrant::server {

LoadProgress::LoadProgress(const Log& log)
    : log_(log), terminal_(log.format() == LogFormat::kText && isatty(STDERR_FILENO) != 0) {}

void LoadProgress::Report(std::string_view stage, double ratio) {
  const int percent = static_cast<int>(std::clamp(ratio, 0.0, 1.0) * 100);
  const bool new_stage = stage != stage_;
  const int step = terminal_ ? 1 : 10;
  if (!new_stage && percent < shown_percent_ + step) return;
  stage_ = stage;
  shown_percent_ = percent;
  if (terminal_) {
    std::fprintf(stderr, "\rhydrant: loading: %s %d%%\033[K%s", stage_.c_str(), percent,
                 percent == 100 && stage_ == "ready" ? "\n" : "");
    std::fflush(stderr);
  } else {
    log_.Info(absl::StrCat("loading: ", stage_, " ", percent, "%"));
  }
}

}  // namespace hydrant::server
