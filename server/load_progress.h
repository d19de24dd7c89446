// Tells on stderr how far a model's loading is: a line that counts on a terminal, else a line for
// each stage and each tenth.

#ifndef HYDRANT_SERVER_LOAD_PROGRESS_H_
#define HYDRANT_SERVER_LOAD_PROGRESS_H_

#include <string>
#include <string_view>

namespace hydrant::server {

class LoadProgress {
 public:
  LoadProgress();
  // Of Engine::Progress; from one thread at a time.
  void Report(std::string_view stage, double ratio);

 private:
  const bool terminal_;
  std::string stage_;
  int shown_percent_ = -1;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_LOAD_PROGRESS_H_
