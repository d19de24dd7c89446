// The free list of KV blocks. Not thread-safe: the engine thread owns it.

#ifndef HYDRANT_SCHEDULER_BLOCK_ALLOCATOR_H_
#define HYDRANT_SCHEDULER_BLOCK_ALLOCATOR_H_

#include <cstdint>
#include <vector>

namespace hydrant::scheduler {

// Slots in a block. Equal to kernels::kBlockSlots (the engine asserts it); the two leaves do not
// include each other.
inline constexpr int32_t kBlockSlots = 16;

constexpr int32_t BlocksFor(int64_t slots) {
  return static_cast<int32_t>((slots + kBlockSlots - 1) / kBlockSlots);
}

class BlockAllocator {
 public:
  explicit BlockAllocator(int32_t num_blocks);

  int32_t total() const { return total_; }
  int32_t free() const;  // blocks in nobody's table
  int32_t held() const { return total() - free(); }
  // Blocks ever handed out are all below this id: what lies above need not be resident yet.
  int32_t high_water() const { return high_water_; }

  // Appends `count` blocks to `blocks`, following the last one of it where those are free (extents:
  // the kernels read runs faster), else the lowest runs. Aborts when fewer are free.
  void Allocate(int32_t count, std::vector<int32_t>* blocks);
  // Gives back the blocks of `blocks` from index `keep` on, and shortens it. Aborts when one of
  // them is free already.
  void Release(std::vector<int32_t>* blocks, int32_t keep = 0);

 private:
  int32_t total_;
  int32_t high_water_ = 0;
  // The representation is the implementer's.
};

}  // namespace hydrant::scheduler

#endif  // HYDRANT_SCHEDULER_BLOCK_ALLOCATOR_H_
