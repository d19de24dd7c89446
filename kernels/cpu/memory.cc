#include "kernels/cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "kernels/check.h"

// Linux 5.14; absent from older headers.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace hydrant::kernels::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRegionBytes = size_t{64} << 20;
constexpr size_t kPieceAlignment = 64;

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

Region::Region(size_t bytes) : bytes_(bytes) {
  mapping_bytes_ = RoundUp(std::max<size_t>(bytes, 1), kHugePage) + kHugePage;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  HYDRANT_CHECK(mapping_ != MAP_FAILED);
  data_ = reinterpret_cast<uint8_t*>(RoundUp(reinterpret_cast<uintptr_t>(mapping_), kHugePage));
  // A hint: without huge pages everything still works. Small regions would only waste memory.
  if (bytes >= kHugePage) madvise(data_, mapping_bytes_ - kHugePage, MADV_HUGEPAGE);
}

Region::~Region() { munmap(mapping_, mapping_bytes_); }

Piece Arena::Cut(size_t bytes) {
  const size_t taken = RoundUp(bytes, kPieceAlignment);
  if (taken > kRegionBytes / 2) {  // not worth sharing
    auto region = std::make_shared<Region>(taken);
    return {region, region->data(), bytes};
  }
  if (region_ == nullptr || used_ + taken > region_->bytes()) {
    region_ = std::make_shared<Region>(kRegionBytes);
    used_ = 0;
  }
  uint8_t* data = region_->data() + used_;
  used_ += taken;
  return {region_, data, bytes};
}

void MakeResident(uint8_t* data, size_t bytes) {
  if (bytes == 0) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const uintptr_t end = RoundUp(reinterpret_cast<uintptr_t>(data) + bytes, page);
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0) return;
  // Older kernels: write each page, atomically adding nothing so that no concurrent write is lost.
  for (uintptr_t at = begin; at < end; at += page) {
    std::atomic_ref<uint32_t> word(*reinterpret_cast<uint32_t*>(at));
    word.fetch_add(0, std::memory_order_relaxed);
  }
}

}  // namespace hydrant::kernels::cpu
