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
  int32_t free() const { return free_; }  // blocks in nobody's table
  int32_t held() const { return total() - free(); }
  // Blocks ever handed out are all below this id: what lies above need not be resident yet.
  int32_t high_water() const { return high_water_; }

  // Appends `count` blocks to `blocks`: those that follow its last one while they are free
  // (extents: the kernels read runs faster), else the lowest run that holds all that is left, else
  // the lowest runs there are. Aborts when fewer are free. One pass over the bitmap at the most.
  void Allocate(int32_t count, std::vector<int32_t>* blocks);
  // Gives back the blocks of `blocks` from index `keep` on, and shortens it. Aborts when one of
  // them is free already.
  void Release(std::vector<int32_t>* blocks, int32_t keep = 0);

  bool is_free(int32_t block) const { return (words_[block / 64] >> (block % 64)) & 1; }

 private:
  // The lowest id >= `from` that is free (or: that is held); total() when there is none.
  int32_t NextFree(int32_t from) const;
  int32_t NextHeld(int32_t from) const;
  void Take(int32_t begin, int32_t end, std::vector<int32_t>* blocks);

  int32_t total_;
  int32_t free_;
  int32_t high_water_ = 0;
  std::vector<uint64_t> words_;  // bit i of word w: block 64w + i is free; 0 past total_
  int32_t lowest_ = 0;           // no block below this one is free
};

}  // namespace hydrant::scheduler

#endif  // HYDRANT_SCHEDULER_BLOCK_ALLOCATOR_H_
