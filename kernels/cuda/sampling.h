// Choosing tokens from rows of logits (kernels/sampling.h), a block a row, so that of a row only
// its token leaves the device.

#ifndef HYDRANT_KERNELS_CUDA_SAMPLING_H_
#define HYDRANT_KERNELS_CUDA_SAMPLING_H_

#include <cstdint>

#include "kernels/cuda/platform.h"
#include "kernels/sampling.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// TokenDraw as it is sent: its changes are some of all draws' changes.
struct DeviceDraw {
  int64_t row;
  int32_t first_change, changes;
  float temperature;
  int32_t top_k;
  float top_p, min_p;
  double u;
};

// logits is [.., vocabulary] and stays as it is; `replaced` is scratch for a number for each
// change.
void LaunchSample(float* logits, int64_t vocabulary, const DeviceDraw* draws, int64_t count,
                  const LogitChange* changes, float* replaced, int32_t* tokens,
                  cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_SAMPLING_H_
