// The CUDA backend on the emulator.

#ifndef HYDRANT_TESTS_CUDA_EMULATOR_EMULATED_BACKEND_H_
#define HYDRANT_TESTS_CUDA_EMULATOR_EMULATED_BACKEND_H_

#include <memory>

#include "kernels/backend.h"

namespace hydrant::kernels {

std::unique_ptr<Backend> CreateEmulatedCudaBackend();

}  // namespace hydrant::kernels

#endif  // HYDRANT_TESTS_CUDA_EMULATOR_EMULATED_BACKEND_H_
