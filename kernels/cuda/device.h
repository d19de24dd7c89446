// One GPU: its stream, its memory, and copies. A call of the CUDA runtime that fails when it has no
// business to ends the process with what CUDA says.

#ifndef HYDRANT_KERNELS_CUDA_DEVICE_H_
#define HYDRANT_KERNELS_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/namespace.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// Ends the process unless `error` is cudaSuccess.
void CheckCuda(cudaError_t error, const char* file, int line);
#define HYDRANT_CUDA_CHECK(call) CheckCuda((call), __FILE__, __LINE__)

class Device {
 public:
  // UNAVAILABLE where there is no driver, no GPU, or one below compute capability 8.0.
  static absl::StatusOr<std::unique_ptr<Device>> Open();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  cudaStream_t stream() const { return stream_; }
  int64_t FreeBytes() const;

  // Zeroed; null where there is not so much.
  void* TryAllocate(size_t bytes) const;
  // Wait until the copy is done, and for all that was launched before.
  void CopyIn(void* device, const void* host, size_t bytes) const;
  void CopyOut(void* host, const void* device, size_t bytes) const;

 private:
  explicit Device(cudaStream_t stream) : stream_(stream) {}
  const cudaStream_t stream_;
};

// Memory that grows when more is asked for, and then holds nothing in particular. Aborts when it
// cannot be had.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Device& device) : device_(device) {}
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* AtLeast(size_t bytes);
  template <typename T>
  T* Of(size_t count) {
    return static_cast<T*>(AtLeast(count * sizeof(T)));
  }

 private:
  const Device& device_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Host memory that the GPU copies to and from directly.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* AtLeast(size_t bytes);

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Sends host memory to the device without waiting for it to arrive.
class Sender {
 public:
  explicit Sender(const Device& device);
  ~Sender() { cudaEventDestroy(arrived_); }
  // Where the next thing to be sent is to be written, `bytes` of it; waits for the one before.
  void* Prepare(size_t bytes);
  void Send(void* device, size_t bytes);

 private:
  const Device& device_;
  PinnedMemory memory_;
  cudaEvent_t arrived_ = nullptr;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_DEVICE_H_
