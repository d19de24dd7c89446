#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tests/cuda_emulator/include/cuda_runtime_api.h"
#include "tests/cuda_emulator/machine.h"

using cuda_emulator::CheckAllocated;
using cuda_emulator::CloseDeviceMemory;
using cuda_emulator::Machine;
using cuda_emulator::OpenDeviceMemory;
using cuda_emulator::TheMachine;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Machine& m = TheMachine();
  *total = m.device.bytes;
  *free = m.device.bytes - m.device_used;
  return cudaSuccess;
}

// New memory holds NaN, to be noticed where it is used as it is.
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Machine& m = TheMachine();
  const std::lock_guard lock(m.mutex);
  constexpr size_t kAlignment = 512;  // also between allocations, so that bounds are noticed
  const size_t rounded = bytes / kAlignment * kAlignment + kAlignment;
  uintptr_t address;
  if (const auto free = m.free_by_bytes.find(rounded); free != m.free_by_bytes.end()) {
    address = free->second;
    m.free_by_bytes.erase(free);
  } else {
    if (rounded > m.device.bytes - m.device_used) return cudaErrorMemoryAllocation;
    address = m.device.begin + m.device_used;
    m.device_used += rounded;
  }
  m.allocations[address] = bytes;
  *memory = reinterpret_cast<void*>(address);
  constexpr size_t kFilled = size_t{1} << 20;  // the start of it, so that large pools stay virtual
  OpenDeviceMemory();
  std::memset(*memory, 0xff, std::min(bytes, kFilled));
  CloseDeviceMemory();
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Machine& m = TheMachine();
  const std::lock_guard lock(m.mutex);
  const auto allocation = m.allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (allocation == m.allocations.end()) cuda_emulator::Fail("cudaFree of what is not allocated");
  constexpr size_t kAlignment = 512;
  const size_t rounded = allocation->second / kAlignment * kAlignment + kAlignment;
  m.free_by_bytes.emplace(rounded, allocation->first);
  m.allocations.erase(allocation);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(TheMachine().mutex);
  CheckAllocated(kind == cudaMemcpyHostToDevice ? to : from, bytes, "cudaMemcpyAsync");
  OpenDeviceMemory();
  std::memcpy(to, from, bytes);
  CloseDeviceMemory();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(TheMachine().mutex);
  CheckAllocated(memory, bytes, "cudaMemsetAsync");
  OpenDeviceMemory();
  if (value == 0) {  // large pools stay virtual
    const uintptr_t page = 4096, begin = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (begin + page - 1) / page * page, last = (begin + bytes) / page * page;
    if (first < last) {
      madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
      std::memset(memory, 0, first - begin);
      std::memset(reinterpret_cast<void*>(last), 0, begin + bytes - last);
      bytes = 0;
    }
  }
  std::memset(memory, value, bytes);
  CloseDeviceMemory();
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
