// A fixed team of threads for work of microseconds. The caller is a member of the team. Between
// jobs members spin for a moment, then sleep in a futex; nothing is allocated after construction.

#ifndef HYDRANT_KERNELS_CPU_THREAD_POOL_H_
#define HYDRANT_KERNELS_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace hydrant::kernels::cpu {

class ThreadPool {
 public:
  // `threads` >= 1, the caller included.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr int64_t kClaimsPerMember = 8;

  int size() const { return size_; }

  // Calls job(member) once on each member, 0 <= member < size(), and returns when all have
  // returned. One caller at a time; not from within a job.
  template <typename Job>
  void Run(const Job& job) {
    Start([](const void* context, int member) { (*static_cast<const Job*>(context))(member); },
          &job);
  }

  // A grain for `count` small pieces: claims large enough to cost little, and a few for each member,
  // so that the last one does not keep the others waiting.
  int64_t Grain(int64_t count) const {
    const int64_t grain = count / (kClaimsPerMember * size_);
    return grain < 1 ? 1 : grain;
  }

  // Calls body(index, member) for each index in [0, count). Members claim indices in ascending
  // order, `grain` at a time, as they become free. Runs on the caller alone where there is but one
  // claim.
  template <typename Body>
  void ForEach(int64_t count, int64_t grain, const Body& body) {
    if (count <= grain || size_ == 1) {
      for (int64_t i = 0; i < count; ++i) body(i, 0);
      return;
    }
    next_.store(0, std::memory_order_relaxed);
    Run([&](int member) {
      while (true) {
        const int64_t begin = next_.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        const int64_t end = begin + grain < count ? begin + grain : count;
        for (int64_t i = begin; i < end; ++i) body(i, member);
      }
    });
  }

 private:
  using Function = void (*)(const void*, int);

  void Start(Function function, const void* context);
  void Work(int member);

  const int size_;
  const int64_t spins_;  // before sleeping
  Function function_ = nullptr;
  const void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // grows with each job
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> running_{0};  // members other than the caller still at work
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<int64_t> next_{0};
  std::vector<std::thread> threads_;
};

// One turn of a busy wait.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_THREAD_POOL_H_
