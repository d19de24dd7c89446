#include "kernels/cpu/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "kernels/check.h"
#include "kernels/cpu/topology.h"

namespace hydrant::kernels::cpu {
namespace {

// About 0.1 ms: longer than the serial stretches between the ops of a pass.
constexpr int64_t kSpins = 2000;

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

}  // namespace

// Where threads outnumber cores, spinning would only keep the others from their work.
ThreadPool::ThreadPool(int threads)
    : size_(threads), spins_(threads <= UsableCores() ? kSpins : 0) {
  HYDRANT_CHECK(threads >= 1);
  threads_.reserve(threads - 1);
  for (int member = 1; member < threads; ++member) {
    threads_.emplace_back([this, member] { Work(member); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  FutexWake(epoch_);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Start(Function function, const void* context) {
  if (size_ == 1) return function(context, 0);
  function_ = function;
  context_ = context;
  running_.store(static_cast<uint32_t>(size_ - 1), std::memory_order_relaxed);
  epoch_.fetch_add(1);
  // A member that goes to sleep counts itself first and then looks at the epoch again, so either it
  // is seen here or it sees the new epoch.
  if (sleepers_.load() > 0) FutexWake(epoch_);
  function(context, 0);
  for (int64_t spin = 0; running_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < spins_) {
      SpinPause();
      continue;
    }
    caller_sleeps_.store(true);
    const uint32_t running = running_.load();
    if (running != 0) FutexWait(running_, running);
    caller_sleeps_.store(false);
  }
}

void ThreadPool::Work(int member) {
  uint32_t seen = 0;
  while (true) {
    for (int64_t spin = 0; epoch_.load(std::memory_order_acquire) == seen; ++spin) {
      if (spin < spins_) {
        SpinPause();
        continue;
      }
      sleepers_.fetch_add(1);
      if (epoch_.load() == seen) FutexWait(epoch_, seen);
      sleepers_.fetch_sub(1);
    }
    ++seen;  // jobs do not overlap, so none is skipped
    if (stop_.load()) return;
    function_(context_, member);
    if (running_.fetch_sub(1) == 1 && caller_sleeps_.load()) FutexWake(running_);
  }
}

}  // namespace hydrant::kernels::cpu
