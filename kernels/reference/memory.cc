#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/check.h"
#include "kernels/reference/reference_backend.h"

namespace hydrant::kernels {

Buffer ReferenceBackend::Allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t padded = (bytes + kAlignment) / kAlignment * kAlignment;
  HYDRANT_CHECK(padded >= bytes);
  void* data = std::aligned_alloc(kAlignment, padded);
  HYDRANT_CHECK(data != nullptr);
  std::memset(data, 0, padded);
  return Buffer(data, bytes, [](void* memory) { std::free(memory); });
}

Buffer ReferenceBackend::Upload(std::span<const float> values) {
  Buffer buffer = Allocate(values.size_bytes());
  std::copy(values.begin(), values.end(), static_cast<float*>(buffer.data()));
  return buffer;
}

absl::StatusOr<std::unique_ptr<KvStore>> ReferenceBackend::CreateKvStore(
    const KvGeometry& geometry) {
  return ReferenceKvStore::Create(geometry);
}

size_t ReferenceBackend::KvBlockBytes(const KvGeometry& geometry) const {
  return ReferenceBlockBytes(geometry);
}

void ReferenceBackend::Reserve(int max_rows, int64_t max_cols, int64_t max_slots,
                               const AttentionShape& attention) {
  activation_row_.resize(max_cols);
  activation_int8_.resize(max_cols);
  activation_scales_.resize(Int4Groups(max_cols));
  weights_.resize(max_slots);
  stored_.resize(attention.head_dim);
  ranked_slots_.resize(max_slots);
  evicted_.resize(max_slots);
  evicted_row_.resize(2 * attention.head_dim);
}

std::unique_ptr<Backend> CreateReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace hydrant::kernels
