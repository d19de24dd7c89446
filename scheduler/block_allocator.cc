#include "scheduler/block_allocator.h"

#include <algorithm>
#include <bit>

#include "scheduler/check.h"

namespace hydrant::scheduler {

BlockAllocator::BlockAllocator(int32_t num_blocks) : total_(num_blocks), free_(num_blocks) {
  HYDRANT_CHECK(num_blocks >= 0);
  words_.assign((static_cast<size_t>(num_blocks) + 63) / 64, ~uint64_t{0});
  if (num_blocks % 64 != 0) words_.back() = (uint64_t{1} << (num_blocks % 64)) - 1;
}

int32_t BlockAllocator::NextFree(int32_t from) const {
  if (from >= total_) return total_;
  size_t word = from / 64;
  uint64_t bits = words_[word] & (~uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == words_.size()) return total_;
    bits = words_[word];
  }
  return static_cast<int32_t>(word * 64 + std::countr_zero(bits));
}

int32_t BlockAllocator::NextHeld(int32_t from) const {
  if (from >= total_) return total_;
  size_t word = from / 64;
  uint64_t bits = ~words_[word] & (~uint64_t{0} << (from % 64));
  while (bits == 0) {
    if (++word == words_.size()) return total_;
    bits = ~words_[word];
  }
  return std::min(total_, static_cast<int32_t>(word * 64 + std::countr_zero(bits)));
}

void BlockAllocator::Take(int32_t begin, int32_t end, std::vector<int32_t>* blocks) {
  for (int32_t block = begin; block < end; ++block) {
    words_[block / 64] &= ~(uint64_t{1} << (block % 64));
    blocks->push_back(block);
  }
  free_ -= end - begin;
  high_water_ = std::max(high_water_, end);
  if (begin == lowest_) lowest_ = end;
}

void BlockAllocator::Allocate(int32_t count, std::vector<int32_t>* blocks) {
  HYDRANT_CHECK(count >= 0 && count <= free_);
  if (!blocks->empty()) {
    const int32_t next = blocks->back() + 1;
    const int32_t end = std::min(NextHeld(next), next + count);
    if (next < end) {
      Take(next, end, blocks);
      count -= end - next;
    }
  }
  if (count == 0) return;

  lowest_ = NextFree(lowest_);
  for (int32_t begin = lowest_; begin < total_;) {
    const int32_t end = NextHeld(begin);
    if (end - begin >= count) {
      Take(begin, begin + count, blocks);
      return;
    }
    begin = NextFree(end);
  }
  while (count > 0) {
    const int32_t begin = NextFree(lowest_);
    const int32_t end = std::min(NextHeld(begin), begin + count);
    lowest_ = begin;
    Take(begin, end, blocks);
    count -= end - begin;
  }
}

void BlockAllocator::Release(std::vector<int32_t>* blocks, int32_t keep) {
  HYDRANT_CHECK(keep >= 0);
  for (size_t i = keep; i < blocks->size(); ++i) {
    const int32_t block = (*blocks)[i];
    HYDRANT_CHECK(block >= 0 && block < total_ && !is_free(block));
    words_[block / 64] |= uint64_t{1} << (block % 64);
    lowest_ = std::min(lowest_, block);
    ++free_;
  }
  if (static_cast<size_t>(keep) < blocks->size()) blocks->resize(keep);
}

}  // namespace hydrant::scheduler
