// Runs CUDA kernels on the CPU, to find what a GPU's luck would hide. Threads of a block are fibers
// that run in a random, seeded order from one collective operation to the next; blocks of a grid
// follow one another in a random order too.
// The kernels are compiled with -fsanitize=thread, but the functions that the compiler then calls
// at every access to memory are the emulator's own (memory_checks.cc). A process is ended with a
// message that names the kernel, block and thread, for
//   - a block's threads meeting at different barriers, or not all at one
//   - a warp's lanes meeting at different warp operations, a mask that is not the whole warp
//   - shared memory outside any array of the block, or read before it is written
//   - memory that is neither shared nor device memory, or outside of any allocation
//   - two threads' accesses to a place of shared or device memory, one at least a write, that no
//     barrier (and for device memory no launch) puts in order
//   - device memory touched by host code (a segmentation fault)
//
// Checking accesses takes ten times as long as the kernels themselves. So each kernel has its first
// kBlocksChecked blocks checked, and of those that follow a random one in kThenOneIn. Likewise
// device memory is closed to host code after the first kAlwaysClosed calls of the runtime, and then
// after one in kThenClosedOneIn.
//
// What it does not show: speed, the memory model within a barrier-free stretch beyond these races,
// register and shared memory limits, and what PTX does apart from what the twins say it does.
//
// One launch at a time; calls from several host threads wait for one another.

#ifndef HYDRANT_TESTS_CUDA_EMULATOR_EMULATOR_H_
#define HYDRANT_TESTS_CUDA_EMULATOR_EMULATOR_H_

#include <cstddef>
#include <cstdint>

#include "tests/cuda_emulator/include/cuda_runtime_api.h"

namespace cuda_emulator {

// Where in the source a collective operation stands: all that take part must agree on it.
struct Site {
  const char* file;
  int line;
  static constexpr Site Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// The order of threads and blocks from now on. Every seed is one order.
void SetSeed(uint64_t seed);

inline constexpr int kBlocksChecked = 300;
inline constexpr int kThenOneIn = 32;
inline constexpr uint32_t kAlwaysClosed = 500;
inline constexpr uint32_t kThenClosedOneIn = 64;

// Threads of a block may use this much stack.
inline constexpr size_t kStackBytes = 64 * 1024;
inline constexpr int kWarp = 32;
inline constexpr int kMaxThreads = 1024;
inline constexpr size_t kMaxSharedBytes = 227 * 1024;  // of a block on sm_90

// --- in a kernel ---
uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockSize();
dim3 GridSize();
int Lane();

void BlockBarrier(Site site);
void WarpBarrier(unsigned mask, Site site);
// Gives `bytes` (at most kExchangeBytes) of lane `lane`.
inline constexpr size_t kExchangeBytes = 64;
void Exchange(unsigned mask, const void* value, size_t bytes, int lane, void* result, Site site);
// All lanes' values: that of lane l at l * kExchangeBytes, until the lane's next exchange.
uint8_t* Gather(unsigned mask, const void* value, size_t bytes, Site site);
// Replaces each of values[count] by what `op`, which is commutative, makes of all lanes' values,
// lanes 16 apart first, then 8, 4, 2 and 1.
void WarpReduceAll(float* values, int count, float (*op)(float, float), Site site);
// The same of the values of lanes 4 i to 4 i + 3: lanes 1 apart, then 2.
void QuadReduceAll(float* values, int count, float (*op)(float, float), Site site);
int AtomicAdd(int* address, int value);

// An array of the block, the same for all of its threads, made by the first that asks with this
// tag.
void* SharedArray(const void* tag, size_t bytes);
void* DynamicShared();
template <typename Unique>
const void* SiteTag() {
  static const char tag = 0;
  return &tag;
}

// --- on the host ---
using KernelBody = void (*)(const void* closure);
void LaunchBody(const char* name, dim3 grid, dim3 block, size_t shared_bytes, KernelBody body,
                const void* closure, size_t closure_bytes);
template <typename Closure>
void Launch(const char* name, dim3 grid, dim3 block, size_t shared_bytes, const Closure& closure) {
  LaunchBody(
      name, grid, block, shared_bytes, [](const void* c) { (*static_cast<const Closure*>(c))(); },
      &closure, sizeof(closure));
}

}  // namespace cuda_emulator

#endif  // HYDRANT_TESTS_CUDA_EMULATOR_EMULATOR_H_
