// The SIMD backend. One object of kernels per instruction set (isa/), chosen at start; this class
// checks shapes and shares out rows among the threads.

#ifndef HYDRANT_KERNELS_CPU_CPU_BACKEND_H_
#define HYDRANT_KERNELS_CPU_CPU_BACKEND_H_

#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/eviction.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cpu/thread_pool.h"

namespace hydrant::kernels::cpu {

class CpuBackend : public Backend {
 public:
  CpuBackend(const KernelTable& kernels, int threads);

  std::string_view name() const override { return name_; }
  int num_threads() const override { return pool_.size(); }
  size_t activation_bytes() const override { return sizeof(float); }

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
  void GatedLinear(Activation activation, Matrix x, const PackedMatrix& w, const Buffer* bias,
                   Matrix both, Matrix y) override;
  void Activate(Activation activation, Matrix x) override;
  void GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) override;
  void Sample(Matrix logits, std::span<const TokenDraw> draws, std::span<int32_t> tokens) override;
  void Evict(std::span<const EvictionItem> items, KvStore& kv) override;
  void Compact(std::span<const EvictionItem> items, KvStore& kv) override;
  float* HostRows(Matrix x) override { return x.f32(); }

 private:
  // Calls body(row) for all rows, each of about `cols` elements of work, on as many threads as are
  // worth waking.
  template <typename Body>
  void ForRows(int64_t rows, int64_t cols, const Body& body);
  GateKernel* GateOf(Activation activation) const;

  const KernelTable& kernels_;
  std::string name_;
  ThreadPool pool_;
  Arena weights_;
  LinearRunner linear_;
  AttentionRunner attention_;
  EvictionRunner eviction_;
  SampleRunner sampling_;
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_CPU_BACKEND_H_
