// What every access of a kernel to memory goes through: bounds, initialisation and races.
//
// A byte of shared or device memory belongs to a granule of four. For each granule the last write
// and the last read are remembered, with thread, block and the barriers its thread had passed. Two
// accesses of one launch conflict when they are of different threads, touch a byte in common, one
// of them writes (and not both are atomic), and the earlier one is not ordered before the later: by
// a block barrier between them, or by a __syncwarp between lanes of a warp. Of several readers the
// last is remembered, and whether there were others in its warp or beyond; of several writers of
// different bytes of a granule the last.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda_emulator/machine.h"

extern "C" {
extern const char __executable_start;
extern const char end;
}

namespace cuda_emulator {
namespace {

constexpr size_t kGranule = 4;

enum Others : uint8_t { kAlone, kSameWarp, kOtherWarps };

struct Access {
  uint32_t block_serial = 0;  // 0: none
  uint32_t block_barriers;
  uint32_t warp_barriers;
  uint16_t thread;
  uint8_t bytes;  // a mask
  uint8_t others : 4;
  uint8_t atomic : 4;
};
static_assert(sizeof(Access) == 16);

struct Granule {
  Access write, read;
};

enum SharedState : uint8_t { kNotShared, kUnwritten, kWritten };

struct Shadows {
  Granule* device;
  Granule* shared;
  SharedState* shared_states;
};

template <typename T>
T* Map(size_t count) {
  void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) Fail("cannot reserve the shadow of memory");
  return static_cast<T*>(memory);
}

const Shadows& TheShadows() {
  static const Shadows shadows{Map<Granule>(TheMachine().device.bytes / kGranule),
                               Map<Granule>(TheMachine().shared.bytes / kGranule),
                               Map<SharedState>(TheMachine().shared.bytes / kGranule)};
  return shadows;
}

// Whether `earlier` happened before what `fiber` does now; false for a race.
bool Ordered(const Machine& m, const Access& earlier, const Fiber& fiber) {
  if (earlier.block_serial < m.first_block_serial) return true;  // an earlier launch
  if (earlier.block_serial != m.block_serial) return false;      // another block
  if (earlier.block_barriers < fiber.block_barriers) return true;
  if (earlier.others == kOtherWarps) return false;
  if (earlier.thread == fiber.thread && earlier.others == kAlone) return true;
  return earlier.thread / kWarp == fiber.thread / kWarp &&
         earlier.warp_barriers < fiber.warp_barriers;
}

void CheckConflict(const Machine& m, const Access& earlier, uint8_t bytes, bool atomic,
                   const char* what, const char* kind, uintptr_t address) {
  if (earlier.block_serial == 0 || (earlier.bytes & bytes) == 0) return;
  if (atomic && earlier.atomic != 0) return;
  if (Ordered(m, earlier, *m.current)) return;
  Fail("race: %s memory at %#zx is %s, unordered with thread %d of %s block", kind, address, what,
       earlier.thread, earlier.block_serial == m.block_serial ? "the same" : "another");
}

void Record(const Machine& m, Access& access, uint8_t bytes, bool atomic, bool merge) {
  const Fiber& fiber = *m.current;
  Access now{m.block_serial,
             fiber.block_barriers,
             fiber.warp_barriers,
             static_cast<uint16_t>(fiber.thread),
             bytes,
             kAlone,
             static_cast<uint8_t>(atomic)};
  const bool same_stretch = merge && access.block_serial == now.block_serial &&
                            access.block_barriers == now.block_barriers;
  if (same_stretch) {
    now.bytes |= access.bytes;
    if (access.others == kOtherWarps || access.thread / kWarp != now.thread / kWarp) {
      now.others = kOtherWarps;
    } else if (access.warp_barriers == now.warp_barriers &&
               (access.thread != now.thread || access.others == kSameWarp)) {
      now.others = kSameWarp;
    }
  } else if (merge && access.block_serial >= m.first_block_serial &&
             access.block_serial != now.block_serial) {
    now.others = kOtherWarps;  // readers in other blocks of the launch, whom no barrier orders
    now.block_barriers = UINT32_MAX;
    now.bytes |= access.bytes;
  }
  access = now;
}

void CheckGranule(const Machine& m, Granule& granule, uint8_t bytes, bool write, bool atomic,
                  const char* kind, uintptr_t address) {
  CheckConflict(m, granule.write, bytes, atomic, write ? "written twice" : "read after a write",
                kind, address);
  if (write) {
    CheckConflict(m, granule.read, bytes, atomic, "written after a read", kind, address);
    Record(m, granule.write, bytes, atomic, false);
  } else {
    Record(m, granule.read, bytes, atomic, true);
  }
}

// The bytes of granule `granule` that lie in [address, address + bytes).
uint8_t MaskOf(uintptr_t granule, uintptr_t address, size_t bytes) {
  const uintptr_t begin = granule * kGranule;
  uint8_t mask = 0xf;
  if (address > begin) mask &= 0xf << (address - begin);
  if (address + bytes < begin + kGranule) mask &= 0xf >> (begin + kGranule - address - bytes);
  return mask;
}

bool InAllocation(uintptr_t address, size_t bytes) {
  Machine& m = TheMachine();
  static uintptr_t last_begin = 0;
  static size_t last_bytes = 0;
  if (address - last_begin < last_bytes && address + bytes <= last_begin + last_bytes &&
      m.allocations.count(last_begin) != 0) {
    return true;
  }
  auto next = m.allocations.upper_bound(address);
  if (next == m.allocations.begin()) return false;
  const auto& [begin, size] = *--next;
  last_begin = begin;
  last_bytes = size;
  return address + bytes <= begin + size;
}

void CheckAlignment(uintptr_t address, size_t bytes) {
  if (address % bytes != 0) {
    Fail("misaligned access of %zu bytes at %#zx", bytes, address);
  }
}

void Protect(size_t begin, size_t end, int protection) {
  void* const first = reinterpret_cast<void*>(TheMachine().device.begin + begin);
  if (mprotect(first, end - begin, protection) != 0) Fail("cannot protect device memory");
}

}  // namespace

void ForgetSharedMemory() {
  Machine& m = TheMachine();
  const Shadows& shadows = TheShadows();
  const size_t granules = m.shared_used / kGranule;
  std::fill_n(shadows.shared, granules, Granule{});
  std::memset(shadows.shared_states, kNotShared, granules);
  m.shared_used = kSharedGap;
  m.shared_arrays.clear();
}

void DeclareShared(void* memory, size_t bytes) {
  const size_t first = (reinterpret_cast<uintptr_t>(memory) - TheMachine().shared.begin) / kGranule;
  std::memset(memory, 0xa5, bytes);
  std::memset(TheShadows().shared_states + first, kUnwritten, (bytes + kGranule - 1) / kGranule);
}

void CheckAllocated(const void* memory, size_t bytes, const char* what) {
  if (!InAllocation(reinterpret_cast<uintptr_t>(memory), bytes)) {
    Fail("%s of %zu bytes outside of any allocation", what, bytes);
  }
}

void OpenDeviceMemory() {
  Machine& m = TheMachine();
  if (m.device_open >= m.device_used) return;
  constexpr size_t kPage = 4096;
  const size_t end = (m.device_used + kPage - 1) / kPage * kPage;
  Protect(m.device_open, end, PROT_READ | PROT_WRITE);
  m.device_open = end;
}

void CloseDeviceMemory() {
  Machine& m = TheMachine();
  if (m.device_open == 0) return;
  if (++m.closings > kAlwaysClosed && m.closings % kThenClosedOneIn != 0) return;
  Protect(0, m.device_open, PROT_NONE);
  m.device_open = 0;
}

void CheckAccess(uintptr_t address, size_t bytes, bool write, bool atomic) {
  Machine& m = TheMachine();
  if (!checking || m.current == nullptr || m.stacks.Contains(address)) return;
  if (m.shared.Contains(address)) {
    const Shadows& shadows = TheShadows();
    const uintptr_t base = m.shared.begin / kGranule;
    for (uintptr_t g = address / kGranule; g * kGranule < address + bytes; ++g) {
      SharedState& state = shadows.shared_states[g - base];
      if (state == kNotShared) Fail("shared memory %s out of bounds", write ? "written" : "read");
      if (write) {
        state = kWritten;
      } else if (state == kUnwritten) {
        Fail("shared memory read before it is written");
      }
      CheckGranule(m, shadows.shared[g - base], MaskOf(g, address, bytes), write, atomic, "shared",
                   address - m.shared.begin);
    }
  } else if (m.device.Contains(address)) {
    if (!InAllocation(address, bytes)) {
      Fail("device memory %s out of bounds, at %#zx", write ? "written" : "read", address);
    }
    Granule* const shadow = TheShadows().device;
    const uintptr_t base = m.device.begin / kGranule;
    for (uintptr_t g = address / kGranule; g * kGranule < address + bytes; ++g) {
      CheckGranule(m, shadow[g - base], MaskOf(g, address, bytes), write, atomic, "device",
                   address - m.device.begin);
    }
  } else if (!m.closure_range.Contains(address) &&
             !(address >= reinterpret_cast<uintptr_t>(&__executable_start) &&
               address < reinterpret_cast<uintptr_t>(&end))) {
    Fail("host memory %s, at %#zx", write ? "written" : "read", address);
  }
}

}  // namespace cuda_emulator

// What -fsanitize=thread makes the compiler call. Its `unaligned` are of types that ask for less
// alignment than their size.
#define HYDRANT_ACCESS(size)                                                              \
  extern "C" void __tsan_unaligned_read##size(void* address) {                            \
    if (!cuda_emulator::checking) return;                                                 \
    cuda_emulator::CheckAccess(reinterpret_cast<uintptr_t>(address), size, false, false); \
  }                                                                                       \
  extern "C" void __tsan_unaligned_write##size(void* address) {                           \
    if (!cuda_emulator::checking) return;                                                 \
    cuda_emulator::CheckAccess(reinterpret_cast<uintptr_t>(address), size, true, false);  \
  }                                                                                       \
  extern "C" void __tsan_read##size(void* address) {                                      \
    if (!cuda_emulator::checking) return;                                                 \
    cuda_emulator::CheckAlignment(reinterpret_cast<uintptr_t>(address), size);            \
    __tsan_unaligned_read##size(address);                                                 \
  }                                                                                       \
  extern "C" void __tsan_write##size(void* address) {                                     \
    if (!cuda_emulator::checking) return;                                                 \
    cuda_emulator::CheckAlignment(reinterpret_cast<uintptr_t>(address), size);            \
    __tsan_unaligned_write##size(address);                                                \
  }
HYDRANT_ACCESS(1)
HYDRANT_ACCESS(2)
HYDRANT_ACCESS(4)
HYDRANT_ACCESS(8)
HYDRANT_ACCESS(16)
#undef HYDRANT_ACCESS

extern "C" {
void __tsan_read_range(void* address, size_t bytes) {
  cuda_emulator::CheckAccess(reinterpret_cast<uintptr_t>(address), bytes, false, false);
}
void __tsan_write_range(void* address, size_t bytes) {
  cuda_emulator::CheckAccess(reinterpret_cast<uintptr_t>(address), bytes, true, false);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
