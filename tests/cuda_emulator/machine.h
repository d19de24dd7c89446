// The state of the emulated device, shared by the files of the emulator.

#ifndef HYDRANT_TESTS_CUDA_EMULATOR_MACHINE_H_
#define HYDRANT_TESTS_CUDA_EMULATOR_MACHINE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/emulator.h"

namespace cuda_emulator {

enum class Wait { kNothing, kBlockBarrier, kWarp, kEnd };

struct Fiber {
  void* stack_pointer;
  int thread;
  uint3 index;
  Wait wait;
  Site site;
  uint32_t block_barriers;  // passed so far
  uint32_t warp_barriers;   // __syncwarp only: shuffles order no memory
};

// Asynchronous copies of a thread that are under way, oldest first.
struct Copies {
  struct Copy {
    void* to;
    uint32_t group;
    uint8_t bytes[16];
  };
  static constexpr uint32_t kMost = 256;
  Copy copies[kMost];  // number i at i % kMost
  uint32_t begin = 0, end = 0;
  uint32_t group = 0;  // the open one
  uint32_t block_serial = 0;
};

// A stretch of address space, all of it reserved at once and used from the start.
struct Range {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool Contains(uintptr_t address) const { return address - begin < bytes; }
};

// Between arrays of shared memory, and before the first.
inline constexpr size_t kSharedGap = 128;

// Whether accesses of the block that runs are checked, see emulator.h. Asked at each.
inline bool checking = false;

struct Machine {
  std::mutex mutex;
  uint64_t random = 1;

  // The launch that runs.
  bool running = false;
  const char* kernel = "";
  dim3 grid, block;
  KernelBody body = nullptr;
  const void* closure = nullptr;
  Range closure_range;
  uint32_t first_block_serial = 1;  // of this launch
  uint32_t block_serial = 0;        // counts blocks over all launches
  uint3 block_index;

  std::vector<std::pair<const char*, int>> checked_blocks;  // by kernel

  // Its threads.
  std::vector<Fiber> fibers;
  Fiber* current = nullptr;
  void* scheduler_stack_pointer = nullptr;
  int at_block_barrier = 0, ended = 0;
  std::vector<int> warp_arrivals;
  std::vector<uint8_t> exchanged;  // [warps][2 phases][32][kExchangeBytes]
  std::vector<int> phases;         // [warps]
  std::vector<uint8_t> reduced;    // [warps]: whether one lane has computed for all
  std::vector<Copies> copies;      // [kMaxThreads]

  Range stacks;

  // Shared memory of the block: arrays in order of their first use, with gaps between.
  Range shared;
  size_t shared_used = 0;
  size_t dynamic_bytes = 0;
  std::vector<std::pair<const void*, void*>> shared_arrays;  // by tag

  // Device memory: allocations and what is free, by address.
  Range device;
  size_t device_used = 0;
  size_t device_open = 0;  // of it, see OpenDeviceMemory
  uint32_t closings = 0;
  std::map<uintptr_t, size_t> allocations;
  std::multimap<size_t, uintptr_t> free_by_bytes;
};

extern std::atomic<Machine*> made_machine;
Machine& MakeMachine();
inline Machine& TheMachine() {
  Machine* const machine = made_machine.load(std::memory_order_acquire);
  return machine != nullptr ? *machine : MakeMachine();
}

// Ends the process with a message that names the kernel, block and thread.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// memory_checks.cc
void ForgetSharedMemory();                       // at the start of a block
void DeclareShared(void* memory, size_t bytes);  // an array of the block
void CheckAccess(uintptr_t address, size_t bytes, bool write, bool atomic);
// While open, host code and kernels can touch device memory. Closing takes longer than many a
// kernel, so it is not always done (emulator.h).
void OpenDeviceMemory();
void CloseDeviceMemory();
// Aborts unless [memory, memory + bytes) is of one allocation.
void CheckAllocated(const void* memory, size_t bytes, const char* what);

uint64_t NextRandom();

}  // namespace cuda_emulator

#endif  // HYDRANT_TESTS_CUDA_EMULATOR_MACHINE_H_
