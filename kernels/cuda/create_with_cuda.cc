#include "kernels/cuda/cuda_backend.h"

namespace hydrant::kernels {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend() { return cuda::Create(); }

}  // namespace hydrant::kernels
