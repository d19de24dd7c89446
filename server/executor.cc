#include "server/executor.h"

#include <utility>

namespace hydrant::server {

Executor::Executor(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(std::function<void()> task) {
  // Notified under the lock: a task may end the executor as soon as it can run.
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  ready_.notify_one();
}

void Executor::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes before the next one waits
    lock.lock();
  }
}

}  // namespace hydrant::server
