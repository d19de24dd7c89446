// SIGINT and SIGTERM as values instead of interruptions.

#ifndef HYDRANT_SERVER_SIGNALS_H_
#define HYDRANT_SERVER_SIGNALS_H_

#include <signal.h>

#include <chrono>
#include <optional>

namespace hydrant::server {

// Exit status of a process that SIGINT ended, as shells tell it.
inline constexpr int kInterruptedExit = 130;

// Blocks both for this thread and those it starts, so make it before any other thread; ignores
// SIGPIPE. The signals stay blocked afterwards.
class Signals {
 public:
  Signals();

  // The number of a signal that came, or nullopt after `timeout`.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

 private:
  sigset_t set_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_SIGNALS_H_
