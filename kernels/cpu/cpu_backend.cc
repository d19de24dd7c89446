#include "kernels/cpu/cpu_backend.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/cpu/isa_select.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/topology.h"
#include "kernels/quantization.h"
#include "kernels/shapes.h"
#include "kernels/source_table.h"

namespace hydrant::kernels {
namespace cpu {
namespace {

// Rows below this many elements of work together are faster done by the caller than shared out.
constexpr int64_t kSerialElements = 16 * 1024;
constexpr size_t kAlignment = 64;
constexpr int kMaxThreads = 1024;

int64_t RowElements(const AttentionShape& shape) {
  return (int64_t{shape.heads} + 2 * int64_t{shape.kv_heads}) * shape.head_dim;
}

void CheckBatch(const Batch& batch, const AttentionShape& shape, const Matrix& qkv, int layer,
                const KvGeometry& kv) {
  HYDRANT_CHECK(layer >= 0 && layer < kv.layers);
  HYDRANT_CHECK(shape.kv_heads == kv.kv_heads && shape.head_dim == kv.head_dim);
  HYDRANT_CHECK(shape.heads > 0 && shape.heads % shape.kv_heads == 0);
  HYDRANT_CHECK(qkv.rows == batch.num_rows() && qkv.cols == RowElements(shape));
  HYDRANT_CHECK(batch.positions.size() == batch.token_ids.size());
  for (const BatchSequence& sequence : batch.sequences) {
    HYDRANT_CHECK(sequence.first_row >= 0 && sequence.num_rows > 0);
    HYDRANT_CHECK(sequence.first_row <= batch.num_rows() - sequence.num_rows);
    HYDRANT_CHECK(sequence.num_rows <= sequence.num_slots);
    HYDRANT_CHECK(sequence.holes == nullptr || sequence.num_rows == 1);
    HYDRANT_CHECK(sequence.audit == nullptr || sequence.num_rows == 1);
  }
}

const float* Values(const Buffer& buffer, int64_t count) {
  HYDRANT_CHECK(buffer.bytes() == count * sizeof(float));
  return static_cast<const float*>(buffer.data());
}

CpuKvStore& StoreOf(KvStore& kv) { return static_cast<CpuKvStore&>(kv); }

const float* BiasOf(const PackedMatrix& w, const Buffer* bias) {
  if (bias == nullptr) return nullptr;
  HYDRANT_CHECK(bias->bytes() == w.rows() * sizeof(float));
  return static_cast<const float*>(bias->data());
}

}  // namespace

CpuBackend::CpuBackend(const KernelTable& kernels, int threads)
    : kernels_(kernels),
      name_(absl::StrCat("cpu:", kernels.name)),
      pool_(threads),
      linear_(kernels, pool_),
      attention_(kernels, pool_),
      eviction_(kernels, pool_),
      sampling_(pool_) {}

template <typename Body>
void CpuBackend::ForRows(int64_t rows, int64_t cols, const Body& body) {
  const int64_t worth_waking = kSerialElements / 2 / std::max<int64_t>(1, cols);
  const int64_t grain = std::max(worth_waking, pool_.Grain(rows));
  if (rows * cols <= kSerialElements) {
    for (int64_t row = 0; row < rows; ++row) body(row);
  } else {
    pool_.ForEach(rows, grain, [&](int64_t row, int) { body(row); });
  }
}

Buffer CpuBackend::Allocate(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
  HYDRANT_CHECK(data != nullptr);
  std::memset(data, 0, std::max(rounded, kAlignment));
  return Buffer(data, bytes, [](void* memory) { std::free(memory); });
}

Buffer CpuBackend::Upload(std::span<const float> values) {
  Buffer buffer = Allocate(values.size_bytes());
  if (!values.empty()) std::memcpy(buffer.data(), values.data(), values.size_bytes());
  return buffer;
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> CpuBackend::Pack(const MatrixSource& source,
                                                               WeightDType dtype) {
  return PackedWeights::Make(source, dtype, kernels_, pool_, weights_);
}

absl::StatusOr<std::unique_ptr<Table>> CpuBackend::MakeTable(MatrixSource source,
                                                             const PackedMatrix*) {
  return std::make_unique<SourceTable>(std::move(source));
}

absl::StatusOr<std::unique_ptr<KvStore>> CpuBackend::CreateKvStore(const KvGeometry& geometry) {
  if (absl::Status status = CheckGeometry(geometry); !status.ok()) return status;
  return std::make_unique<CpuKvStore>(geometry);
}

size_t CpuBackend::KvBlockBytes(const KvGeometry& geometry) const {
  return KvLayout(geometry).TotalBlockBytes(geometry);
}

void CpuBackend::Reserve(int max_rows, int64_t max_cols, int64_t max_slots,
                         const AttentionShape& attention) {
  linear_.Reserve(max_rows, max_cols);
  attention_.Reserve(max_rows, max_slots, attention);
  eviction_.Reserve(max_slots, attention.head_dim);
}

void CpuBackend::Embed(const Table& table, std::span<const int32_t> ids, float scale, Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(ids.size()) && y.cols == table.cols());
  const SourceTable& rows = SourceTable::From(table);
  ForRows(y.rows, y.cols, [&](int64_t row) {
    float* out = y.f32() + row * y.cols;
    rows.Read(ids[row], out);
    if (scale != 1.0f) kernels_.scale_row(out, y.cols, scale);
  });
}

void CpuBackend::RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) {
  HYDRANT_CHECK(x.rows == y.rows && x.cols == y.cols);
  const float* w = Values(weight, x.cols);
  ForRows(x.rows, x.cols, [&](int64_t row) {
    kernels_.rms_norm(x.f32() + row * x.cols, w, eps, x.cols, y.f32() + row * y.cols);
  });
}

void CpuBackend::LayerNorm(Matrix x, const Buffer& weight, const Buffer& bias, float eps,
                           Matrix y) {
  HYDRANT_CHECK(x.rows == y.rows && x.cols == y.cols);
  const float* w = Values(weight, x.cols);
  const float* b = Values(bias, x.cols);
  ForRows(x.rows, 2 * x.cols, [&](int64_t row) {
    kernels_.layer_norm(x.f32() + row * x.cols, w, b, eps, x.cols, y.f32() + row * y.cols);
  });
}

void CpuBackend::RmsNormHeads(const AttentionShape& shape, const Buffer& query_weight,
                              const Buffer& key_weight, float eps, Matrix qkv) {
  HYDRANT_CHECK(qkv.cols == RowElements(shape));
  const float* q = Values(query_weight, shape.head_dim);
  const float* k = Values(key_weight, shape.head_dim);
  ForRows(qkv.rows, qkv.cols, [&](int64_t row) {
    float* at = qkv.f32() + row * qkv.cols;
    for (int head = 0; head < shape.heads + shape.kv_heads; ++head, at += shape.head_dim) {
      kernels_.rms_norm(at, head < shape.heads ? q : k, eps, shape.head_dim, at);
    }
  });
}

void CpuBackend::Add(Matrix x, Matrix y) {
  HYDRANT_CHECK(x.rows == y.rows && x.cols == y.cols);
  ForRows(x.rows, x.cols, [&](int64_t row) {
    kernels_.add_row(x.f32() + row * x.cols, x.cols, y.f32() + row * y.cols);
  });
}

void CpuBackend::Linear(Matrix x, const PackedMatrix& w, const Buffer* bias, bool accumulate,
                        Matrix y) {
  linear_.Run(x, static_cast<const PackedWeights&>(w), BiasOf(w, bias), accumulate, y);
}

void CpuBackend::ComputeRope(const RopeParams& rope, std::span<const int32_t> positions,
                             Matrix table) {
  const int64_t half = rope.rotary_dim / 2;
  CheckRope(rope, positions, table);
  // A sine costs as much as about ten elements of the other ops.
  ForRows(table.rows, 10 * table.cols, [&](int64_t row) {
    float* out = table.f32() + row * table.cols;
    for (int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(positions[row]) * rope.inv_freq[i];
      out[i] = std::cos(angle) * rope.attention_factor;
      out[half + i] = std::sin(angle) * rope.attention_factor;
    }
  });
}

void CpuBackend::RopeAndStore(const Batch& batch, const AttentionShape& shape, int rotary_dim,
                              Matrix table, Matrix qkv, int layer, KvStore& kv) {
  CpuKvStore& store = StoreOf(kv);
  CheckBatch(batch, shape, qkv, layer, kv.geometry());
  HYDRANT_CHECK(rotary_dim >= 0 && rotary_dim % 2 == 0 && rotary_dim <= shape.head_dim);
  HYDRANT_CHECK(table.cols == rotary_dim && table.rows == qkv.rows);
  const KvLayout& layout = store.layout();
  const auto store_slot = kernels_.store_slot[static_cast<size_t>(kv.geometry().dtype)];
  const auto rotation = static_cast<int32_t>(HadamardBlock(shape.head_dim));
  const float normalise = HadamardNormalise(rotation);
  const int64_t head_dim = shape.head_dim;
  const auto store_row = [&](const BatchSequence& sequence, int64_t i) {
    const int64_t row = sequence.first_row + i;
    const float* cos = table.f32() + row * rotary_dim;
    float* query = qkv.f32() + row * qkv.cols;
    float* key = query + shape.heads * head_dim;
    float* value = key + shape.kv_heads * head_dim;
    // Queries and keys lie side by side.
    kernels_.rotate_heads(query, shape.heads + shape.kv_heads, head_dim, rotary_dim / 2, cos,
                          cos + rotary_dim / 2);
    for (int head = 0; head < shape.kv_heads; ++head) {
      const int64_t slot = sequence.holes == nullptr
                               ? sequence.num_slots - sequence.num_rows + i
                               : sequence.holes[int64_t{layer} * shape.kv_heads + head];
      HYDRANT_CHECK(slot >= 0 && slot < sequence.num_slots);
      const int32_t block = sequence.blocks[slot / kBlockSlots];
      HYDRANT_CHECK(block >= 0 && block < kv.geometry().num_blocks);
      const auto place = static_cast<int32_t>(slot % kBlockSlots);
      store_slot({.key = key + head * head_dim,
                  .value = value + head * head_dim,
                  .head_dim = shape.head_dim,
                  .hadamard_block = rotation,
                  .hadamard_normalise = normalise,
                  .block = store.blocks(layer, head) + block * layout.block_bytes,
                  .at = layout.at,
                  .place = place});
      const int64_t at = int64_t{block} * kBlockSlots + place;
      store.scores(layer, head)[at] = 0.0f;
      store.positions(layer, head)[at] = batch.positions[row];
    }
  };
  // Prefill shares out the rows of a sequence, decode the sequences.
  for (const BatchSequence& sequence : batch.sequences) {
    if (sequence.num_rows == 1) continue;
    ForRows(sequence.num_rows, qkv.cols, [&](int64_t i) { store_row(sequence, i); });
  }
  ForRows(static_cast<int64_t>(batch.sequences.size()), qkv.cols, [&](int64_t s) {
    if (batch.sequences[s].num_rows == 1) store_row(batch.sequences[s], 0);
  });
}

void CpuBackend::Attention(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv,
                           KvStore& kv, Matrix out) {
  CheckBatch(batch, shape, qkv, layer, kv.geometry());
  attention_.Run(batch, shape, layer, qkv, StoreOf(kv), out);
}

GateKernel* CpuBackend::GateOf(Activation activation) const {
  if (activation == Activation::kGelu) return kernels_.gated_gelu;
  if (activation == Activation::kGeluTanh) return kernels_.gated_gelu_tanh;
  if (activation == Activation::kRelu) return kernels_.gated_relu;
  return kernels_.gated_silu;
}

void CpuBackend::GatedLinear(Activation activation, Matrix x, const PackedMatrix& w,
                             const Buffer* bias, Matrix both, Matrix y) {
  const auto& weights = static_cast<const PackedWeights&>(w);
  if (!linear_.CanGate(x, weights)) {
    return Backend::GatedLinear(activation, x, w, bias, both, y);
  }
  linear_.RunGated(x, weights, BiasOf(w, bias), GateOf(activation), y);
}

void CpuBackend::GatedActivation(Activation activation, Matrix x, Matrix y) {
  HYDRANT_CHECK(x.rows == y.rows && x.cols == 2 * y.cols);
  GateKernel* kernel = GateOf(activation);
  ForRows(y.rows, 4 * y.cols, [&](int64_t row) {
    const float* gate = x.f32() + row * x.cols;
    kernel(gate, gate + y.cols, y.cols, y.f32() + row * y.cols);
  });
}

void CpuBackend::Activate(Activation activation, Matrix x) {
  auto* kernel = kernels_.silu;
  if (activation == Activation::kGelu) kernel = kernels_.gelu;
  if (activation == Activation::kGeluTanh) kernel = kernels_.gelu_tanh;
  if (activation == Activation::kRelu) kernel = kernels_.relu;
  ForRows(x.rows, 4 * x.cols, [&](int64_t row) { kernel(x.f32() + row * x.cols, x.cols); });
}

void CpuBackend::GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(rows.size()) && x.cols == y.cols);
  ForRows(y.rows, y.cols, [&](int64_t row) {
    HYDRANT_CHECK(rows[row] >= 0 && rows[row] < x.rows);
    std::memcpy(y.f32() + row * y.cols, x.f32() + rows[row] * x.cols, x.cols * sizeof(float));
  });
}

void CpuBackend::Sample(Matrix logits, std::span<const TokenDraw> draws,
                        std::span<int32_t> tokens) {
  sampling_.Run(logits, draws, tokens);
}

void CpuBackend::Evict(std::span<const EvictionItem> items, KvStore& kv) {
  eviction_.Evict(items, StoreOf(kv));
}

void CpuBackend::Compact(std::span<const EvictionItem> items, KvStore& kv) {
  eviction_.Compact(items, StoreOf(kv));
}

}  // namespace cpu

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  if (options.threads < 0 || options.threads > cpu::kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "threads is ", options.threads, "; it must be 0 (all usable cores) to ", cpu::kMaxThreads));
  }
  absl::StatusOr<const cpu::KernelTable*> kernels = cpu::SelectIsa(options.isa);
  if (!kernels.ok()) return kernels.status();
  const int threads = options.threads == 0 ? cpu::UsableCores() : options.threads;
  return std::make_unique<cpu::CpuBackend>(**kernels, threads);
}

}  // namespace hydrant::kernels
