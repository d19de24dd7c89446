// Zeroed memory from the operating system, resident only where it has been touched, in huge pages
// where the system offers them.

#ifndef HYDRANT_KERNELS_CPU_MEMORY_H_
#define HYDRANT_KERNELS_CPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hydrant::kernels::cpu {

// A mapping, 2 MiB aligned. Aborts when the address space cannot be had.
class Region {
 public:
  explicit Region(size_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* mapping_;
  size_t mapping_bytes_;
  uint8_t* data_;
  size_t bytes_;
};

// A piece of a region, which lives as long as a piece of it does.
struct Piece {
  std::shared_ptr<Region> region;
  uint8_t* data = nullptr;
  size_t bytes = 0;
};

// Cuts pieces from large regions, so that many small matrices share huge pages. What is not yet cut
// costs no memory.
class Arena {
 public:
  // 64-byte aligned and zeroed.
  Piece Cut(size_t bytes);

 private:
  std::shared_ptr<Region> region_;
  size_t used_ = 0;
};

// Makes [data, data + bytes) resident without changing what it holds, as other threads use it.
void MakeResident(uint8_t* data, size_t bytes);

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_MEMORY_H_
