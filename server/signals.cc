#include "server/signals.h"

#include <ctime>

namespace hydrant::server {

Signals::Signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

std::optional<int> Signals::Wait(std::chrono::milliseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec wait = {};
  wait.tv_sec = seconds.count();
  wait.tv_nsec = std::chrono::nanoseconds(timeout - seconds).count();
  const int number = sigtimedwait(&set_, nullptr, &wait);
  if (number < 0) return std::nullopt;
  return number;
}

}  // namespace hydrant::server
