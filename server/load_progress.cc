#include "server/load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace hydrant::server {

LoadProgress::LoadProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

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
  } else {
    std::fprintf(stderr, "hydrant: loading: %s %d%%\n", stage_.c_str(), percent);
  }
  std::fflush(stderr);
}

}  // namespace hydrant::server
