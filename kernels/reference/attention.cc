// Rotary embedding, the store of keys and values, and attention with scores.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/shapes.h"

namespace hydrant::kernels {
namespace {

// Rotates the pairs (i, i + n) of head, n = rotary_dim / 2, by the angles whose cosines are
// table[0, n) and sines table[n, 2n).
void Rotate(const float* table, int rotary_dim, float* head) {
  const int half = rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float cos = table[i];
    const float sin = table[half + i];
    const float a = head[i];
    const float b = head[i + half];
    head[i] = a * cos - b * sin;
    head[i + half] = b * cos + a * sin;
  }
}

void CheckBatch(const Batch& batch, const AttentionShape& shape, const Matrix& qkv, int layer,
                const KvGeometry& kv) {
  HYDRANT_CHECK(layer >= 0 && layer < kv.layers);
  HYDRANT_CHECK(shape.kv_heads == kv.kv_heads && shape.head_dim == kv.head_dim);
  HYDRANT_CHECK(shape.heads > 0 && shape.heads % shape.kv_heads == 0);
  HYDRANT_CHECK(qkv.rows == batch.num_rows());
  HYDRANT_CHECK(batch.positions.size() == batch.token_ids.size());
  HYDRANT_CHECK(qkv.cols == (int64_t{shape.heads} + 2 * int64_t{shape.kv_heads}) * shape.head_dim);
  for (const BatchSequence& sequence : batch.sequences) {
    HYDRANT_CHECK(sequence.first_row >= 0 && sequence.num_rows > 0);
    HYDRANT_CHECK(sequence.first_row <= batch.num_rows() - sequence.num_rows);
    HYDRANT_CHECK(sequence.num_rows <= sequence.num_slots);
    HYDRANT_CHECK(sequence.holes == nullptr || sequence.num_rows == 1);
    HYDRANT_CHECK(sequence.audit == nullptr || sequence.num_rows == 1);
  }
}

}  // namespace

void ReferenceBackend::ComputeRope(const RopeParams& rope, std::span<const int32_t> positions,
                                   Matrix table) {
  const int64_t half = rope.rotary_dim / 2;
  CheckRope(rope, positions, table);
  for (int64_t row = 0; row < table.rows; ++row) {
    float* out = table.f32() + row * table.cols;
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[row]) * rope.inv_freq[i];
      out[i] = std::cos(angle) * rope.attention_factor;
      out[half + i] = std::sin(angle) * rope.attention_factor;
    }
  }
}

void ReferenceBackend::RopeAndStore(const Batch& batch, const AttentionShape& shape, int rotary_dim,
                                    Matrix table, Matrix qkv, int layer, KvStore& kv) {
  ReferenceKvStore& store = ReferenceKvStore::From(kv);
  CheckBatch(batch, shape, qkv, layer, kv.geometry());
  HYDRANT_CHECK(rotary_dim >= 0 && rotary_dim % 2 == 0 && rotary_dim <= shape.head_dim);
  HYDRANT_CHECK(table.cols == rotary_dim && table.rows == qkv.rows);
  for (const BatchSequence& sequence : batch.sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      const int row = sequence.first_row + i;
      const float* angles = table.f32() + int64_t{row} * rotary_dim;
      float* query = qkv.f32() + row * qkv.cols;
      float* key = query + int64_t{shape.heads} * shape.head_dim;
      const float* value = key + int64_t{shape.kv_heads} * shape.head_dim;
      for (int h = 0; h < shape.heads; ++h) Rotate(angles, rotary_dim, query + h * shape.head_dim);
      for (int h = 0; h < shape.kv_heads; ++h) {
        Rotate(angles, rotary_dim, key + h * shape.head_dim);
        const int32_t slot = sequence.holes == nullptr ? sequence.num_slots - sequence.num_rows + i
                                                       : sequence.holes[layer * shape.kv_heads + h];
        HYDRANT_CHECK(slot >= 0 && slot < sequence.num_slots);
        store.Write(store.Row(layer, h, sequence.blocks, slot), key + h * shape.head_dim,
                    value + h * shape.head_dim, batch.positions[row]);
      }
    }
  }
}

void ReferenceBackend::Attention(const Batch& batch, const AttentionShape& shape, int layer,
                                 Matrix qkv, KvStore& kv, Matrix out) {
  ReferenceKvStore& store = ReferenceKvStore::From(kv);
  CheckBatch(batch, shape, qkv, layer, kv.geometry());
  HYDRANT_CHECK(out.rows == qkv.rows && out.cols == int64_t{shape.heads} * shape.head_dim);
  const int group = shape.heads / shape.kv_heads;
  const int32_t window = kv.geometry().window(layer);
  for (const BatchSequence& sequence : batch.sequences) {
    HYDRANT_CHECK(sequence.num_slots <= static_cast<int64_t>(weights_.size()));
    for (int row = sequence.first_row; row < sequence.first_row + sequence.num_rows; ++row) {
      for (int h = 0; h < shape.heads; ++h) {
        const int32_t position = batch.positions[row];
        const float* query = qkv.f32() + row * qkv.cols + h * shape.head_dim;
        const ExpSum held =
            AttendHead(sequence, position, window, shape.scale, query, layer, h / group, store,
                       out.f32() + row * out.cols + h * shape.head_dim);
        if (sequence.audit == nullptr) continue;
        sequence.audit->recall[layer * shape.heads + h] = RecallOf(
            held, SumEvicted(*sequence.audit, layer * shape.kv_heads + h / group, shape.head_dim,
                             position, window, shape.scale, query, evicted_row_.data()));
      }
    }
  }
}

ExpSum ReferenceBackend::AttendHead(const BatchSequence& sequence, int32_t position, int32_t window,
                                    float scale, const float* query, int layer, int kv_head,
                                    ReferenceKvStore& kv, float* out) {
  const int head_dim = kv.geometry().head_dim;
  const float masked = -std::numeric_limits<float>::infinity();
  const auto row_of = [&](int32_t slot) { return kv.Row(layer, kv_head, sequence.blocks, slot); };
  // What a stored key or value is multiplied with has the store's dtype too.
  const auto as_stored = [bf16 = kv.geometry().dtype == KvDType::kBF16](float x) {
    return bf16 ? RoundToBF16(x) : x;
  };

  float largest = masked;
  for (int32_t slot = 0; slot < sequence.num_slots; ++slot) {
    const size_t row = row_of(slot);
    const int32_t key_position = kv.position(row);
    float logit = masked;
    if (key_position <= position && (window == 0 || key_position > position - window)) {
      logit = 0.0f;
      kv.LoadKey(row, stored_.data());
      for (int d = 0; d < head_dim; ++d) logit += as_stored(query[d]) * stored_[d];
      logit *= scale;
    }
    weights_[slot] = logit;
    largest = std::max(largest, logit);
  }
  float sum = 0.0f;
  for (int32_t slot = 0; slot < sequence.num_slots; ++slot) {
    weights_[slot] = std::exp(weights_[slot] - largest);
    sum += weights_[slot];
  }
  std::fill(out, out + head_dim, 0.0f);
  for (int32_t slot = 0; slot < sequence.num_slots; ++slot) {
    if (weights_[slot] == 0.0f) continue;  // the value may be anything
    const size_t row = row_of(slot);
    kv.LoadValue(row, stored_.data());
    for (int d = 0; d < head_dim; ++d) out[d] += as_stored(weights_[slot]) * stored_[d];
    if (sequence.keep_scores) kv.score(row) += weights_[slot] / sum;
  }
  for (int d = 0; d < head_dim; ++d) out[d] /= sum;
  return {largest, sum};
}

}  // namespace hydrant::kernels
