// A few threads that run what is posted, in order of arrival.
//
// Two uses: one thread writes what the engine produced to the streams, so that the engine's own
// thread does no I/O; and long prompts are tokenised off gRPC's few threads, which all streams
// share.

#ifndef HYDRANT_SERVER_EXECUTOR_H_
#define HYDRANT_SERVER_EXECUTOR_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hydrant::server {

class Executor {
 public:
  explicit Executor(int threads);
  // Runs what was posted before, then joins.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // From any thread, also from a task; never waits for one.
  void Post(std::function<void()> task);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXECUTOR_H_
