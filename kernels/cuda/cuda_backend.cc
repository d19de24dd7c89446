#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/packed_matrix.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sampling.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/table.h"
#include "kernels/quantization.h"
#include "kernels/shapes.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

const float* Values(const Buffer& buffer, int64_t count) {
  HYDRANT_CHECK(buffer.bytes() == count * sizeof(float));
  return static_cast<const float*>(buffer.data());
}

void CheckSameShape(const Matrix& x, const Matrix& y) {
  HYDRANT_CHECK(x.rows == y.rows && x.cols == y.cols);
}

NormRows WholeRows(Matrix x, Matrix y, float eps) {
  CheckSameShape(x, y);
  return {.x = x.f32(),
          .y = y.f32(),
          .rows = x.rows,
          .row_stride = x.cols,
          .groups = 1,
          .first = 1,
          .cols = static_cast<int>(x.cols),
          .weights = {},
          .bias = nullptr,
          .eps = eps};
}

const int32_t* SendInts(Sender& sender, std::span<const int32_t> values, DeviceMemory& to) {
  if (values.empty()) return nullptr;
  std::memcpy(sender.Prepare(values.size_bytes()), values.data(), values.size_bytes());
  auto* const device = to.Of<int32_t>(values.size());
  sender.Send(device, values.size_bytes());
  return device;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> Create() {
  absl::StatusOr<std::unique_ptr<Device>> device = Device::Open();
  if (!device.ok()) return device.status();
  return std::make_unique<CudaBackend>(*std::move(device));
}

CudaBackend::CudaBackend(std::unique_ptr<Device> device)
    : device_(std::move(device)),
      planner_(*device_),
      embedded_(*device_),
      rope_(*device_),
      gathered_(*device_),
      items_(*device_),
      draws_(*device_),
      tiles_(*device_),
      tile_scales_(*device_),
      tile_groups_(*device_),
      sums_(*device_),
      parts_(*device_),
      logits_(*device_),
      lists_(*device_),
      inv_freq_(*device_),
      ids_(*device_),
      rows_(*device_),
      item_words_(*device_),
      victims_(*device_),
      draw_words_(*device_) {}

CudaBackend::~CudaBackend() = default;

Buffer CudaBackend::Allocate(size_t bytes) {
  void* const memory = device_->TryAllocate(bytes);
  if (memory == nullptr) HYDRANT_CUDA_CHECK(cudaErrorMemoryAllocation);
  return Buffer(memory, bytes, [](void* m) { cudaFree(m); });
}

Buffer CudaBackend::Upload(std::span<const float> values) {
  Buffer buffer = Allocate(values.size_bytes());
  if (!values.empty()) device_->CopyIn(buffer.data(), values.data(), values.size_bytes());
  return buffer;
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> CudaBackend::Pack(const MatrixSource& source,
                                                                WeightDType dtype) {
  return CudaMatrix::Make(source, dtype, *device_);
}

absl::StatusOr<std::unique_ptr<Table>> CudaBackend::MakeTable(MatrixSource source,
                                                              const PackedMatrix* packed) {
  return CudaTable::Make(source, packed, *device_);
}

absl::StatusOr<std::unique_ptr<KvStore>> CudaBackend::CreateKvStore(const KvGeometry& geometry) {
  return CudaKvStore::Create(geometry, *device_);
}

size_t CudaBackend::KvBlockBytes(const KvGeometry& geometry) const { return BlockBytes(geometry); }

void CudaBackend::Reserve(int max_rows, int64_t max_cols, int64_t max_slots,
                          const AttentionShape& attention) {
  // Decodes whose parts do not fit follow one another. As many splits as 64 sequences of average
  // length may have keep a GPU busy; the longest sequence fits in any case.
  constexpr int64_t kSplits = 1024;
  max_rows_ = max_rows;
  max_cols_ = max_cols;
  max_slots_ = max_slots;
  const int longest = SplitsOf(max_slots);
  max_splits_ = static_cast<int>(
      std::max<int64_t>(longest, std::min<int64_t>(kSplits, int64_t{1} * max_rows * longest)));
  planner_.Reserve(max_rows);
  // The widest in any dtype, and rows as many as a block of LinearManyKernel reads.
  constexpr int64_t kReadRows = 64;
  const int64_t padded_rows = (max_rows + kReadRows - 1) / kReadRows * kReadRows;
  const int64_t tiles = ColumnTiles(WeightDType::kBF16, max_cols);
  tiles_.Of<uint8_t>(padded_rows / kInputTileRows * tiles * kInputTileBytes);
  tile_scales_.Of<float>(padded_rows);
  tile_groups_.Of<InputGroup>(padded_rows * Int4Groups(max_cols));
  sums_.Of<float>(int64_t{2} * max_rows * attention.heads);
  parts_.Of<float>(int64_t{max_splits_} * attention.heads * (attention.head_dim + 2));
  logits_.Of<float>(int64_t{max_splits_} * attention.heads * kSplitSlots);
  lists_.Of<int32_t>(attention.kv_heads * max_slots);
  // What a pass sends grows beyond this only where passes do.
  constexpr size_t kWords = 1 << 16;
  inv_freq_.Of<float>(attention.head_dim + max_rows);
  ids_.Of<int32_t>(max_rows);
  rows_.Of<int32_t>(max_rows);
  item_words_.Of<int32_t>(kWords);
  victims_.Of<int32_t>(kWords);
  query_.resize(attention.heads * attention.head_dim);
  sums_of_row_.resize(2 * attention.heads);
  evicted_key_.resize(2 * attention.head_dim);
  host_list_.resize(attention.kv_heads * max_slots);
  physical_slots_.resize(max_slots);
  item_bytes_.reserve(kWords * sizeof(int32_t));
  host_victims_.reserve(kWords);
}

void CudaBackend::Embed(const Table& table, std::span<const int32_t> ids, float scale, Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(ids.size()) && y.cols == table.cols());
  for (const int32_t id : ids) HYDRANT_CHECK(id >= 0 && id < table.rows());
  LaunchEmbed(CudaTable::From(table).view(), SendInts(embedded_, ids, ids_), y.rows, scale, y.f32(),
              stream());
}

void CudaBackend::RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) {
  NormRows norm = WholeRows(x, y, eps);
  norm.weights[0] = Values(weight, x.cols);
  LaunchRmsNorm(norm, stream());
}

void CudaBackend::LayerNorm(Matrix x, const Buffer& weight, const Buffer& bias, float eps,
                            Matrix y) {
  NormRows norm = WholeRows(x, y, eps);
  norm.weights[0] = Values(weight, x.cols);
  norm.bias = Values(bias, x.cols);
  LaunchLayerNorm(norm, stream());
}

void CudaBackend::RmsNormHeads(const AttentionShape& shape, const Buffer& query_weight,
                               const Buffer& key_weight, float eps, Matrix qkv) {
  HYDRANT_CHECK(qkv.cols == (int64_t{shape.heads} + 2 * shape.kv_heads) * shape.head_dim);
  NormRows norm = WholeRows(qkv, qkv, eps);
  norm.groups = shape.heads + shape.kv_heads;
  norm.first = shape.heads;
  norm.cols = shape.head_dim;
  norm.weights[0] = Values(query_weight, shape.head_dim);
  norm.weights[1] = Values(key_weight, shape.head_dim);
  LaunchRmsNorm(norm, stream());
}

void CudaBackend::Add(Matrix x, Matrix y) {
  CheckSameShape(x, y);
  LaunchAdd(x.f32(), y.f32(), x.rows * x.cols, stream());
}

void CudaBackend::Linear(Matrix x, const PackedMatrix& packed, const Buffer* bias, bool accumulate,
                         Matrix y) {
  const CudaMatrix& w = CudaMatrix::From(packed);
  HYDRANT_CHECK(w.cols() == x.cols && y.cols == w.rows() && y.rows == x.rows);
  HYDRANT_CHECK(x.rows <= max_rows_ && x.cols <= max_cols_);
  LinearArgs args{.x = x.data,
                  .x_scales = nullptr,
                  .w = w.values(),
                  .w_scales = w.scales(),
                  .x_groups = nullptr,
                  .w_ranges = w.ranges(),
                  .bias = bias == nullptr ? nullptr : Values(*bias, w.rows()),
                  .y = y.f32(),
                  .rows = x.rows,
                  .cols = x.cols,
                  .outputs = w.rows(),
                  .accumulate = accumulate};
  if (w.dtype() != WeightDType::kF32) {
    const InputTiles tiles{tiles_.Of<uint8_t>(0), tile_scales_.Of<float>(0),
                           tile_groups_.Of<InputGroup>(0)};
    const auto rotation = static_cast<int>(HadamardBlock(x.cols));
    LaunchInputTiles(w.dtype(), x.f32(), x.rows, x.cols, rotation, HadamardNormalise(rotation),
                     tiles, stream());
    args.x = tiles.values;
    args.x_scales = tiles.scales;
    args.x_groups = tiles.groups;
  }
  LaunchLinear(w.dtype(), args, stream());
}

void CudaBackend::ComputeRope(const RopeParams& rope, std::span<const int32_t> positions,
                              Matrix table) {
  const int64_t half = rope.rotary_dim / 2;
  CheckRope(rope, positions, table);
  if (half == 0 || positions.empty()) return;
  const size_t freq_bytes = half * sizeof(float);
  const size_t bytes = freq_bytes + positions.size_bytes();
  auto* const host = static_cast<uint8_t*>(rope_.Prepare(bytes));
  std::memcpy(host, rope.inv_freq.data(), freq_bytes);
  std::memcpy(host + freq_bytes, positions.data(), positions.size_bytes());
  auto* const device = inv_freq_.Of<float>(bytes / sizeof(float));
  rope_.Send(device, bytes);
  LaunchRopeTable(device, static_cast<int>(half), rope.attention_factor,
                  reinterpret_cast<const int32_t*>(device + half), table.rows, table.f32(),
                  stream());
}

void CudaBackend::RopeAndStore(const Batch& batch, const AttentionShape& shape, int rotary_dim,
                               Matrix table, Matrix qkv, int layer, KvStore& kv) {
  CudaKvStore& store = CudaKvStore::From(kv);
  HYDRANT_CHECK(layer >= 0 && layer < kv.geometry().layers);
  HYDRANT_CHECK(rotary_dim >= 0 && rotary_dim % 2 == 0 && rotary_dim <= shape.head_dim);
  HYDRANT_CHECK(table.cols == rotary_dim && table.rows == qkv.rows);
  HYDRANT_CHECK(qkv.rows == batch.num_rows());
  HYDRANT_CHECK(qkv.cols == (int64_t{shape.heads} + 2 * shape.kv_heads) * shape.head_dim);
  const PassPlan& plan = planner_.Plan(batch, shape, kv.geometry(), max_splits_);
  LaunchRopeAndStore({plan.batch, store.layer(layer), table.f32(), qkv.f32(), qkv.rows, shape.heads,
                      rotary_dim, layer},
                     stream());
}

void CudaBackend::GatedActivation(Activation activation, Matrix x, Matrix y) {
  HYDRANT_CHECK(x.rows == y.rows && x.cols == 2 * y.cols);
  LaunchActivation(activation, x.f32(), x.f32() + y.cols, x.cols, y.f32(), y.rows, y.cols,
                   stream());
}

void CudaBackend::Activate(Activation activation, Matrix x) {
  LaunchActivation(activation, x.f32(), nullptr, x.cols, x.f32(), x.rows, x.cols, stream());
}

void CudaBackend::GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) {
  HYDRANT_CHECK(y.rows == static_cast<int64_t>(rows.size()) && x.cols == y.cols);
  for (const int32_t row : rows) HYDRANT_CHECK(row >= 0 && row < x.rows);
  LaunchGather(x.f32(), SendInts(gathered_, rows, rows_), y.rows, y.cols, y.f32(), stream());
}

void CudaBackend::Sample(Matrix logits, std::span<const TokenDraw> draws,
                         std::span<int32_t> tokens) {
  CheckDraws(logits, draws, tokens);
  if (draws.empty()) return;
  size_t changes = 0;
  for (const TokenDraw& draw : draws) changes += draw.changes.size();
  const size_t changes_at = draws.size() * sizeof(DeviceDraw);
  const size_t bytes = changes_at + changes * sizeof(LogitChange);
  auto* const host = static_cast<uint8_t*>(draws_.Prepare(bytes));
  auto* const host_draws = reinterpret_cast<DeviceDraw*>(host);
  auto* const host_changes = reinterpret_cast<LogitChange*>(host + changes_at);
  int32_t first = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const TokenDraw& draw = draws[i];
    const auto count = static_cast<int32_t>(draw.changes.size());
    host_draws[i] = {draw.row,   first,      count,      draw.temperature,
                     draw.top_k, draw.top_p, draw.min_p, draw.u};
    std::copy(draw.changes.begin(), draw.changes.end(), host_changes + first);
    first += count;
  }
  auto* const device =
      draw_words_.Of<uint8_t>(bytes + changes * sizeof(float) + tokens.size_bytes());
  auto* const replaced = reinterpret_cast<float*>(device + bytes);
  auto* const device_tokens = reinterpret_cast<int32_t*>(replaced + changes);
  draws_.Send(device, bytes);
  LaunchSample(logits.f32(), logits.cols, reinterpret_cast<const DeviceDraw*>(device),
               static_cast<int64_t>(draws.size()),
               reinterpret_cast<const LogitChange*>(device + changes_at), replaced, device_tokens,
               stream());
  auto* const host_tokens = static_cast<int32_t*>(tokens_.AtLeast(tokens.size_bytes()));
  device_->CopyOut(host_tokens, device_tokens, tokens.size_bytes());
  std::copy_n(host_tokens, tokens.size(), tokens.begin());
}

float* CudaBackend::HostRows(Matrix x) {
  const size_t bytes = x.rows * x.cols * sizeof(float);
  auto* const host = static_cast<float*>(host_rows_.AtLeast(bytes));
  device_->CopyOut(host, x.data, bytes);
  return host;
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
