// The CUDA backend, for compute capability 8.0 and later: one GPU, one stream. Activations are f32;
// what a linear layer multiplies is rounded as its weight dtype says, and what attention multiplies
// as the KV cache's does. This class checks shapes and launches; the kernels stand in the .cu
// files.
//
// Ops are launched and not waited for. Those that wait: Sample, HostRows and Evict, since the host
// reads what they give; Compact only where evicted tokens are handed over, Attention only where a
// sequence is audited.

#ifndef HYDRANT_KERNELS_CUDA_CUDA_BACKEND_H_
#define HYDRANT_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_kv_store.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/pass_plan.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// UNAVAILABLE where there is no GPU that it could use.
absl::StatusOr<std::unique_ptr<Backend>> Create();

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<Device> device);
  ~CudaBackend() override;

  std::string_view name() const override { return "cuda"; }
  int num_threads() const override { return 1; }
  size_t activation_bytes() const override { return sizeof(float); }
  std::optional<int64_t> FreeDeviceBytes() const override { return device_->FreeBytes(); }

  Buffer Allocate(size_t bytes) override;
  Buffer Upload(std::span<const float> values) override;
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source,
                                                     WeightDType dtype) override;
  absl::StatusOr<std::unique_ptr<Table>> MakeTable(MatrixSource source,
                                                   const PackedMatrix* packed) override;
  absl::StatusOr<std::unique_ptr<KvStore>> CreateKvStore(const KvGeometry& geometry) override;
  size_t KvBlockBytes(const KvGeometry& geometry) const override;
  void Reserve(int max_rows, int64_t max_cols, int64_t max_slots,
               const AttentionShape& attention) override;

  void Embed(const Table& table, std::span<const int32_t> ids, float scale, Matrix y) override;
  void RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) override;
  void LayerNorm(Matrix x, const Buffer& weight, const Buffer& bias, float eps, Matrix y) override;
  void RmsNormHeads(const AttentionShape& shape, const Buffer& query_weight,
                    const Buffer& key_weight, float eps, Matrix qkv) override;
  void Add(Matrix x, Matrix y) override;
  void Linear(Matrix x, const PackedMatrix& w, const Buffer* bias, bool accumulate,
              Matrix y) override;
  void ComputeRope(const RopeParams& rope, std::span<const int32_t> positions,
                   Matrix table) override;
  void RopeAndStore(const Batch& batch, const AttentionShape& shape, int rotary_dim, Matrix table,
                    Matrix qkv, int layer, KvStore& kv) override;
  void Attention(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv,
                 KvStore& kv, Matrix out) override;
  void GatedActivation(Activation activation, Matrix x, Matrix y) override;
  void Activate(Activation activation, Matrix x) override;
  void GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) override;
  void Sample(Matrix logits, std::span<const TokenDraw> draws, std::span<int32_t> tokens) override;
  void Evict(std::span<const EvictionItem> items, KvStore& kv) override;
  void Compact(std::span<const EvictionItem> items, KvStore& kv) override;
  float* HostRows(Matrix x) override;

 private:
  // Items with their block tables behind them, in device memory.
  struct SentItems {
    const void* items;
    const int32_t* blocks;
  };
  SentItems Send(std::span<const EvictionItem> items);
  void CompactOne(const EvictionItem& item, const SentItems& sent, size_t index,
                  CudaKvStore& store);
  // Gives what the lists of LaunchSelect let go to the item's store.
  void HandOverAll(const EvictionItem& item, int layer, const int32_t* lists, CudaKvStore& store);
  void Audit(const BatchSequence& sequence, int32_t position, const AttentionShape& shape,
             int layer, Matrix qkv, const KvGeometry& kv);
  cudaStream_t stream() const { return device_->stream(); }

  std::unique_ptr<Device> device_;
  Planner planner_;
  Sender embedded_, rope_, gathered_, items_, draws_;
  PinnedMemory host_rows_, tokens_;
  // Scratch, sized by Reserve; what a pass sends beside.
  DeviceMemory tiles_, tile_scales_, tile_groups_, sums_, parts_, logits_, lists_, inv_freq_, ids_,
      rows_, item_words_, victims_, draw_words_;
  int max_rows_ = 0, max_splits_ = 0;
  int64_t max_cols_ = 0, max_slots_ = 0;
  // What audits and hand-overs read.
  std::vector<float> query_, sums_of_row_, evicted_key_;
  std::vector<int32_t> host_list_, host_victims_;
  std::vector<int64_t> physical_slots_;
  std::vector<uint8_t> item_bytes_;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_CUDA_BACKEND_H_
