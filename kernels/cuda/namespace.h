// The namespace of the backend's code. The same sources are built twice where the emulator is
// tested beside the real thing.

#ifndef HYDRANT_KERNELS_CUDA_NAMESPACE_H_
#define HYDRANT_KERNELS_CUDA_NAMESPACE_H_

#ifndef HYDRANT_CUDA_NAMESPACE
#define HYDRANT_CUDA_NAMESPACE cuda
#endif

#endif  // HYDRANT_KERNELS_CUDA_NAMESPACE_H_
