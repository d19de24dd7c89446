// The KV cache of one engine: how large the pool is, and the thread that makes its memory resident
// ahead of use.

#ifndef HYDRANT_ENGINE_KV_CACHE_H_
#define HYDRANT_ENGINE_KV_CACHE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/kv_store.h"

namespace hydrant::engine {

// The pool's size when the operator names none: a quarter of what the cgroup leaves, at most 4 GiB;
// on a device with memory of its own, nine tenths of what is free there but for the weights.
int64_t DefaultKvCacheBytes(const kernels::Backend& backend, int64_t weight_bytes);

class KvCache {
 public:
  // As many whole blocks as fit in `bytes`. INVALID_ARGUMENT when that is none, naming the least,
  // or when there is less memory than that. `geometry.num_blocks` is set here.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(kernels::Backend& backend,
                                                         kernels::KvGeometry geometry,
                                                         int64_t bytes);
  ~KvCache();

  kernels::KvStore& store() { return *store_; }
  int32_t num_blocks() const { return store_->geometry().num_blocks; }
  int64_t block_bytes() const { return block_bytes_; }

  // Blocks below `high_water` have been handed out: memory beyond it is made resident in the
  // background, so that a step does not wait for page faults. Cheap; from the engine thread.
  void NoteHighWater(int32_t high_water);

 private:
  KvCache(std::unique_ptr<kernels::KvStore> store, int64_t block_bytes);
  void PrefaultLoop();

  std::unique_ptr<kernels::KvStore> store_;
  int64_t block_bytes_;
  int32_t noted_high_water_ = 0;  // engine thread's
  std::mutex mutex_;
  std::condition_variable wake_;
  int32_t high_water_ = 0;  // guarded by mutex_
  bool stop_ = false;       // guarded by mutex_
  std::thread thread_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_KV_CACHE_H_
