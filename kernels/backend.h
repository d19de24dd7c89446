// Backend: everything that is computed on the device, as coarse batched ops.
//
// kernels/reference/ is the plain scalar oracle; kernels/cpu/ (SIMD) and kernels/cuda/ must
// match it in tests/kernels/backend_*_test.cc, parametrised suites over all of them.
//
// Contract of every op:
// - Batch-invariant: a row's result is bit-identical whatever other rows are in the batch, however
// a
//   prompt is cut into chunks, whatever the thread count. Prefill and decode reduce in one order,
//   so a recomputed token gets the key and value it had.
// - Nothing is allocated after Reserve (rows up to max_rows, slots up to the store's size); by
//   Sample nothing after its largest call.
// - Called from one thread at a time; a backend parallelises inside an op.
// - Shapes are the caller's duty: a violated one aborts with file and line.

#ifndef HYDRANT_KERNELS_BACKEND_H_
#define HYDRANT_KERNELS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/batch.h"
#include "kernels/kv_store.h"
#include "kernels/quantization.h"
#include "kernels/sampling.h"

namespace hydrant::kernels {

// The numeric path of the linear layers. One dtype is one path for every number of rows.
//   f32   exact: f32 weights, f32 accumulation in the order of the columns
//   bf16  weights and activations rounded to bf16, f32 accumulation
//   int8  W8A8: both sides rotated by a block Hadamard transform, weights symmetric per row,
//         activations per token, int32 accumulation over all columns (exact, order-free)
//   int4  weights of 4 bits in groups of 32 columns, each with a scale and a zero in f16;
//         activations int8 per token in the same groups; the groups' exact sums are added in f32,
//         in ascending order. Not rotated: the groups of a 4-bit file stay as they are.
enum class WeightDType { kF32, kBF16, kInt8, kInt4 };

std::string_view WeightDTypeName(WeightDType dtype);  // "f32", "bf16", "int8", "int4"

// A matrix where it lies in its file: [rows, cols], handed out as f32 a row at a time.
// The functions may be called from several threads at once.
struct MatrixSource {
  int64_t rows = 0;
  int64_t cols = 0;
  std::function<void(int64_t row, float* out)> read_row;
  // Where the file's own numbers are those of int4 (quantization.h): the row's levels [cols] and
  // the ranges of its groups, which int4 then keeps. Not set: int4 quantises what read_row gives.
  std::function<void(int64_t row, uint8_t* levels, Int4Range* ranges)> read_groups = nullptr;
};

// y = x W^T weights in the backend's own packed form. Made by Backend::Pack.
class PackedMatrix {
 public:
  PackedMatrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols) {}
  virtual ~PackedMatrix() = default;
  PackedMatrix(const PackedMatrix&) = delete;
  PackedMatrix& operator=(const PackedMatrix&) = delete;
  int64_t rows() const { return rows_; }  // outputs
  int64_t cols() const { return cols_; }  // inputs
  virtual size_t bytes() const = 0;

 private:
  int64_t rows_, cols_;
};

// Rows that Embed looks up, to the bit what their source gives. Made by Backend::MakeTable.
class Table {
 public:
  Table(int64_t rows, int64_t cols) : rows_(rows), cols_(cols) {}
  virtual ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  virtual size_t bytes() const = 0;  // beside those of its source

 private:
  int64_t rows_, cols_;
};

// Device memory, 64-byte aligned, zeroed, owned. Made by Backend::Allocate.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, size_t bytes, std::function<void(void*)> free)
      : data_(data), bytes_(bytes), free_(std::move(free)) {}
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      free_ = std::move(other.free_);
    }
    return *this;
  }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void Reset() {
    if (data_ != nullptr) free_(data_);
    data_ = nullptr;
  }
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::function<void(void*)> free_;
};

// A row-major, contiguous activation matrix in device memory. The CPU backends compute in f32, and
// so does every element here; a device with its own activation dtype says so in activation_bytes().
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  float* f32() const { return static_cast<float*>(data); }
};

enum class Activation { kSilu, kGelu, kGeluTanh, kRelu };

// Rotary embedding. Pairs are (i, i + rotary_dim / 2), as in Hugging Face's rotate_half; the first
// rotary_dim of each head rotate. inv_freq already holds the scaling (linear, Llama 3, YaRN).
struct RopeParams {
  int32_t rotary_dim = 0;
  std::vector<float> inv_freq;    // [rotary_dim / 2]
  float attention_factor = 1.0f;  // multiplies cos and sin
};

struct AttentionShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;  // divides heads: query head h reads KV head h / (heads / kv_heads)
  int32_t head_dim = 0;
  float scale = 1.0f;  // multiplies q.k; usually 1 / sqrt(head_dim)
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "reference", "cpu:avx512", ...
  virtual int num_threads() const = 0;
  virtual size_t activation_bytes() const = 0;  // of one element
  // What is free of the device's own memory; nothing where it computes in the host's.
  virtual std::optional<int64_t> FreeDeviceBytes() const { return std::nullopt; }

  // --- at load ---
  // Aborts when the memory cannot be had.
  virtual Buffer Allocate(size_t bytes) = 0;
  virtual Buffer Upload(std::span<const float> values) = 0;  // as f32: norm weights, biases
  virtual absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source,
                                                             WeightDType dtype) = 0;
  // `packed`, unless it is null, was made of the same source (tied embeddings): a table can do
  // without rows of its own where it holds them exactly. Both outlive the table.
  virtual absl::StatusOr<std::unique_ptr<Table>> MakeTable(MatrixSource source,
                                                           const PackedMatrix* packed) = 0;
  virtual absl::StatusOr<std::unique_ptr<KvStore>> CreateKvStore(const KvGeometry& geometry) = 0;
  // Bytes of one block over all layers and heads, scores and positions included.
  virtual size_t KvBlockBytes(const KvGeometry& geometry) const = 0;
  // Sizes the scratch memory: the most rows of a pass, the widest linear input, the longest
  // attention length. Called once, after the weights are packed.
  virtual void Reserve(int max_rows, int64_t max_cols, int64_t max_slots,
                       const AttentionShape& attention) = 0;

  // --- in a pass; x and y do not overlap unless said ---
  // y[i] = row ids[i] of the table, times `scale`.
  virtual void Embed(const Table& table, std::span<const int32_t> ids, float scale, Matrix y) = 0;
  // y = x / rms(x) * weight, per row; `weight` is [cols] f32. y may be x.
  virtual void RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) = 0;
  // y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, per row; `weight` and `bias` are
  // [cols] f32. y may be x.
  virtual void LayerNorm(Matrix x, const Buffer& weight, const Buffer& bias, float eps,
                         Matrix y) = 0;
  // RmsNorm of each query head and each key head of qkv (as in RopeAndStore), in place; the weights
  // are [head_dim] f32.
  virtual void RmsNormHeads(const AttentionShape& shape, const Buffer& query_weight,
                            const Buffer& key_weight, float eps, Matrix qkv) = 0;
  // y += x.
  virtual void Add(Matrix x, Matrix y) = 0;
  // y = x W^T + bias, or y += x W^T + bias. `bias` is [W.rows] f32 or null.
  virtual void Linear(Matrix x, const PackedMatrix& w, const Buffer* bias, bool accumulate,
                      Matrix y) = 0;
  // table[i] = cos then sin, [rotary_dim / 2] each, f32, for positions[i]. Once a pass.
  virtual void ComputeRope(const RopeParams& rope, std::span<const int32_t> positions,
                           Matrix table) = 0;
  // qkv is [rows, (heads + 2 kv_heads) * head_dim]: q, then k, then v. Rotates q in place, and
  // stores rotated k, v, the row's position and score 0 at the row's slot of `layer`. What it
  // leaves in k and v is its own business.
  virtual void RopeAndStore(const Batch& batch, const AttentionShape& shape, int rotary_dim,
                            Matrix table, Matrix qkv, int layer, KvStore& kv) = 0;
  // out[row] = attention of the row's heads over the slots its sequence holds in `layer`
  // ([rows, heads * head_dim]); with keep_scores, each slot's score grows by the probabilities it
  // received, summed over the query heads of its KV head, rows in order. What the
  // softmax's terms are counted from is the backend's own business.
  // An audited sequence's recall is measured beside it: audit->recall of this layer is written.
  virtual void Attention(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv,
                         KvStore& kv, Matrix out) = 0;
  // x is [rows, 2 * n]: gate, then up. y[i] = act(gate) * up.
  virtual void GatedActivation(Activation activation, Matrix x, Matrix y) = 0;
  // y = act(gate) * up of [gate, up] = x W^T + bias, the same numbers as Linear and
  // GatedActivation give. `both` is [x.rows, W.rows], and may be written.
  virtual void GatedLinear(Activation activation, Matrix x, const PackedMatrix& w,
                           const Buffer* bias, Matrix both, Matrix y) {
    Linear(x, w, bias, false, both);
    GatedActivation(activation, both, y);
  }
  // x[i] = act(x[i]), in place.
  virtual void Activate(Activation activation, Matrix x) = 0;
  // y[i] = x[rows[i]].
  virtual void GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) = 0;
  // tokens[i] = the token that draws[i] chooses from its row of the logits, as sampling.h says; -1
  // where all are NaN or -inf. No two draws are of one row. Leaves the logits as they were.
  virtual void Sample(Matrix logits, std::span<const TokenDraw> draws,
                      std::span<int32_t> tokens) = 0;

  // --- after a pass, over all layers and heads ---
  // Chooses one victim for each layer and head of each item and writes its slot into item.holes:
  // where a layer's window has passed the next token, the oldest such slot; else the lowest score
  // among positions outside sink (position < sink) and recent (position > newest - recent). Ties:
  // oldest position. item.num_slots must exceed the budget by exactly one. The victims stay as they
  // are until the next token takes their place; item.evicted is handed a copy.
  virtual void Evict(std::span<const EvictionItem> items, KvStore& kv) = 0;
  // Keeps policy.budget() of num_slots slots by the same rule (the num_slots - budget worst go),
  // and moves survivors from the tail into the holes of the first budget() slots, scores and
  // positions with them. What they overwrite, and what is left beyond, is handed to item.evicted
  // first. Nothing happens where num_slots <= budget.
  virtual void Compact(std::span<const EvictionItem> items, KvStore& kv) = 0;

  // The f32 rows of x where the host can read and overwrite them, until the next op; the CPU
  // backends give x's own memory.
  virtual float* HostRows(Matrix x) = 0;
};

std::unique_ptr<Backend> CreateReferenceBackend();

struct CpuOptions {
  int threads = 0;  // 0: the cores this process may use (affinity and cgroup quota)
  // "auto", "amx", "avx512bf16", "avx512", "avx2", "portable"; "auto" takes what is fastest here.
  std::string isa = "auto";
};
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

// UNIMPLEMENTED in a program that was built without CUDA, UNAVAILABLE where there is no driver or
// no GPU of compute capability 8.0 or later.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend();

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_BACKEND_H_
