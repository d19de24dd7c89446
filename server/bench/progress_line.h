// Tells how a measurement goes: one line that is rewritten on a terminal, else a line every few
// seconds.

#ifndef HYDRANT_SERVER_BENCH_PROGRESS_LINE_H_
#define HYDRANT_SERVER_BENCH_PROGRESS_LINE_H_

#include <cstdint>
#include <cstdio>

#include "server/bench/load_driver.h"

namespace hydrant::server::bench {

class ProgressLine {
 public:
  // `tokens`: those that had arrived before.
  ProgressLine(FILE* out, bool terminal, int64_t tokens);

  // `seconds` since the beginning; prints when it is time to.
  void Update(double seconds, const LoadDriver::Progress& progress, int64_t tokens);
  // Takes the line away.
  void Finish();

 private:
  FILE* const out_;
  const bool terminal_;
  double last_seconds_ = 0;
  int64_t last_tokens_;
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_PROGRESS_LINE_H_
