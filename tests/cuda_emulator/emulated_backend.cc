#include "tests/cuda_emulator/emulated_backend.h"

#include "kernels/check.h"
#include "kernels/cuda/cuda_backend.h"

namespace hydrant::kernels {

std::unique_ptr<Backend> CreateEmulatedCudaBackend() {
  auto backend = cuda_emulated::Create();
  HYDRANT_CHECK(backend.ok());
  return *std::move(backend);
}

}  // namespace hydrant::kernels
