// Tells how far a model's loading is: a line that counts, where people look on at a terminal, else
// a line of the log for each stage and each tenth.

#ifndef HYDRANT_SERVER_LOAD_PROGRESS_H_
#define HYDRANT_SERVER_LOAD_PROGRESS_H_

#include <string>
#include <string_view>

#include "server/log.h"

namespace hydrant::server {

class LoadProgress {
 public:
  // `log` outlives it.
  explicit LoadProgress(const Log& log);
  // Of Engine::Progress; from one thread at a time.
  void Report(std::string_view stage, double ratio);

 private:
  const Log& log_;
  const bool terminal_;
  std::string stage_;
  int shown_percent_ = -1;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_LOAD_PROGRESS_H_
