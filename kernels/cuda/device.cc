#include "kernels/cuda/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

void CheckCuda(cudaError_t error, const char* file, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: CUDA: %s\n", file, line, cudaGetErrorString(error));
  std::abort();
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return absl::UnavailableError(
        absl::StrCat("no CUDA device can be used: ",
                     error == cudaSuccess ? "none is present" : cudaGetErrorString(error)));
  }
  int major = 0, minor = 0;
  HYDRANT_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  HYDRANT_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  if (major < 8) {
    return absl::UnavailableError(absl::StrCat("the CUDA device has compute capability ", major,
                                               ".", minor, "; 8.0 or later is needed"));
  }
  HYDRANT_CUDA_CHECK(cudaSetDevice(0));
  cudaStream_t stream;
  HYDRANT_CUDA_CHECK(cudaStreamCreate(&stream));
  return std::unique_ptr<Device>(new Device(stream));
}

Device::~Device() { cudaStreamDestroy(stream_); }

int64_t Device::FreeBytes() const {
  size_t free = 0, total = 0;
  HYDRANT_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

void* Device::TryAllocate(size_t bytes) const {
  void* memory = nullptr;
  const size_t at_least = std::max<size_t>(bytes, 1);
  if (cudaMalloc(&memory, at_least) != cudaSuccess) {
    cudaGetLastError();  // forgotten, for later launches to be judged by their own
    return nullptr;
  }
  HYDRANT_CUDA_CHECK(cudaMemsetAsync(memory, 0, at_least, stream_));
  return memory;
}

void Device::CopyIn(void* device, const void* host, size_t bytes) const {
  HYDRANT_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_));
  HYDRANT_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

void Device::CopyOut(void* host, const void* device, size_t bytes) const {
  HYDRANT_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_));
  HYDRANT_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

void* DeviceMemory::AtLeast(size_t bytes) {
  if (bytes > bytes_) {
    HYDRANT_CUDA_CHECK(cudaFree(data_));
    bytes_ = std::max(bytes, 2 * bytes_);
    data_ = device_.TryAllocate(bytes_);
    if (data_ == nullptr) CheckCuda(cudaErrorMemoryAllocation, __FILE__, __LINE__);
  }
  return data_;
}

void* PinnedMemory::AtLeast(size_t bytes) {
  if (bytes > bytes_) {
    HYDRANT_CUDA_CHECK(cudaFreeHost(data_));
    bytes_ = std::max(bytes, 2 * bytes_);
    HYDRANT_CUDA_CHECK(cudaMallocHost(&data_, bytes_));
  }
  return data_;
}

Sender::Sender(const Device& device) : device_(device) {
  HYDRANT_CUDA_CHECK(cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming));
}

void* Sender::Prepare(size_t bytes) {
  HYDRANT_CUDA_CHECK(cudaEventSynchronize(arrived_));
  return memory_.AtLeast(bytes);
}

void Sender::Send(void* device, size_t bytes) {
  HYDRANT_CUDA_CHECK(cudaMemcpyAsync(device, memory_.AtLeast(bytes), bytes, cudaMemcpyHostToDevice,
                                     device_.stream()));
  HYDRANT_CUDA_CHECK(cudaEventRecord(arrived_, device_.stream()));
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
