#include "engine/kv_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/memory_limit.h"

namespace hydrant::engine {
namespace {

constexpr int64_t kMaxDefaultBytes = int64_t{4} << 30;
// Resident ahead of the highest block in use: this much memory, or as much again as is in use.
constexpr int64_t kAheadBytes = int64_t{64} << 20;
// Made resident at a time, so that the thread can end in between.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

}  // namespace

int64_t DefaultKvCacheBytes(const kernels::Backend& backend, int64_t weight_bytes) {
  if (const auto free = backend.FreeDeviceBytes()) {
    return std::max<int64_t>(*free / 10 * 9 - weight_bytes, 0);
  }
  return std::min(AvailableMemoryBytes() / 4, kMaxDefaultBytes);
}

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(kernels::Backend& backend,
                                                         kernels::KvGeometry geometry,
                                                         int64_t bytes) {
  const int64_t block_bytes = static_cast<int64_t>(backend.KvBlockBytes(geometry));
  const auto free = backend.FreeDeviceBytes();
  const int64_t available = free.value_or(AvailableMemoryBytes());
  if (available > 0 && bytes > available) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_cache_bytes: ", bytes, " bytes are more than the ", available, " that ",
                     free ? "the device" : "this machine or its cgroup", " has left"));
  }
  const int64_t blocks = std::min<int64_t>(bytes / block_bytes, INT32_MAX / kernels::kBlockSlots);
  if (blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_cache_bytes: ", bytes, " bytes hold no block; one of ",
                     kernels::kBlockSlots, " tokens takes ", block_bytes));
  }
  geometry.num_blocks = static_cast<int32_t>(blocks);
  auto store = backend.CreateKvStore(geometry);
  if (!store.ok()) return store.status();
  return std::unique_ptr<KvCache>(new KvCache(*std::move(store), block_bytes));
}

KvCache::KvCache(std::unique_ptr<kernels::KvStore> store, int64_t block_bytes)
    : store_(std::move(store)), block_bytes_(block_bytes), thread_([this] { PrefaultLoop(); }) {}

KvCache::~KvCache() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void KvCache::NoteHighWater(int32_t high_water) {
  if (high_water <= noted_high_water_) return;
  noted_high_water_ = high_water;
  {
    std::lock_guard lock(mutex_);
    high_water_ = high_water;
  }
  wake_.notify_one();
}

void KvCache::PrefaultLoop() {
  const int32_t ahead = static_cast<int32_t>(std::max<int64_t>(1, kAheadBytes / block_bytes_));
  const int32_t piece = static_cast<int32_t>(std::max<int64_t>(1, kPieceBytes / block_bytes_));
  int32_t resident = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto target = [&] {
      return static_cast<int32_t>(
          std::min<int64_t>(num_blocks(), int64_t{high_water_} + std::max(high_water_, ahead)));
    };
    wake_.wait(lock, [&] { return stop_ || resident < target(); });
    if (stop_) return;
    const int32_t count = std::min(piece, target() - resident);
    lock.unlock();
    store_->Prefault(resident, count);
    resident += count;
    lock.lock();
  }
}

}  // namespace hydrant::engine
