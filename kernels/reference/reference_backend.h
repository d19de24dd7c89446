// The plain scalar oracle of every op: one thread, f32, one loop after the other as the interface
// says it. Nothing here is meant to be fast; everything here is meant to be read.

#ifndef HYDRANT_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define HYDRANT_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/recall.h"
#include "kernels/reference/kv_store.h"

namespace hydrant::kernels {

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  int num_threads() const override { return 1; }
  size_t activation_bytes() const override { return sizeof(float); }

  // memory.cc
  Buffer Allocate(size_t bytes) override;
  Buffer Upload(std::span<const float> values) override;
  absl::StatusOr<std::unique_ptr<KvStore>> CreateKvStore(const KvGeometry& geometry) override;
  size_t KvBlockBytes(const KvGeometry& geometry) const override;
  void Reserve(int max_rows, int64_t max_cols, int64_t max_slots,
               const AttentionShape& attention) override;
  float* HostRows(Matrix x) override { return x.f32(); }

  // rows.cc
  absl::StatusOr<std::unique_ptr<Table>> MakeTable(MatrixSource source,
                                                   const PackedMatrix* packed) override;
  void Embed(const Table& table, std::span<const int32_t> ids, float scale, Matrix y) override;
  void RmsNorm(Matrix x, const Buffer& weight, float eps, Matrix y) override;
  void LayerNorm(Matrix x, const Buffer& weight, const Buffer& bias, float eps, Matrix y) override;
  void RmsNormHeads(const AttentionShape& shape, const Buffer& query_weight,
                    const Buffer& key_weight, float eps, Matrix qkv) override;
  void Add(Matrix x, Matrix y) override;
  void GatedActivation(Activation activation, Matrix x, Matrix y) override;
  void Activate(Activation activation, Matrix x) override;
  void GatherRows(Matrix x, std::span<const int32_t> rows, Matrix y) override;

  // sampling.cc
  void Sample(Matrix logits, std::span<const TokenDraw> draws, std::span<int32_t> tokens) override;

  // linear.cc
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source,
                                                     WeightDType dtype) override;
  void Linear(Matrix x, const PackedMatrix& w, const Buffer* bias, bool accumulate,
              Matrix y) override;

  // attention.cc
  void ComputeRope(const RopeParams& rope, std::span<const int32_t> positions,
                   Matrix table) override;
  void RopeAndStore(const Batch& batch, const AttentionShape& shape, int rotary_dim, Matrix table,
                    Matrix qkv, int layer, KvStore& kv) override;
  void Attention(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv,
                 KvStore& kv, Matrix out) override;

  // eviction.cc
  void Evict(std::span<const EvictionItem> items, KvStore& kv) override;
  void Compact(std::span<const EvictionItem> items, KvStore& kv) override;

 private:
  // A token that may be chosen.
  struct Choice {
    int32_t id;
    float weight = 0.0f, mass = 0.0f;
  };
  int32_t SampleRow(const float* logits, int64_t vocabulary, const TokenDraw& draw);
  // One query head of one row: its output and, with keep_scores, the growth of the scores. Gives
  // the sum of exp(q.k) over the keys it saw.
  ExpSum AttendHead(const BatchSequence& sequence, int32_t position, int32_t window, float scale,
                    const float* query, int layer, int kv_head, ReferenceKvStore& kv, float* out);
  // Sorts an item's slots of one layer and head into ranked_slots_: the next to be evicted first,
  // those that must not be last.
  void RankVictims(const EvictionItem& item, int layer, int head, ReferenceKvStore& kv);

  // Scratch, sized by Reserve.
  std::vector<float> activation_row_;     // [max_cols]
  std::vector<int8_t> activation_int8_;   // [max_cols]
  std::vector<float> activation_scales_;  // [Int4Groups(max_cols)]
  std::vector<float> weights_;            // [max_slots]
  std::vector<float> stored_;             // [head_dim], a key or value as it is read
  std::vector<int32_t> ranked_slots_;     // [max_slots]
  std::vector<bool> evicted_;             // [max_slots]
  std::vector<float> evicted_row_;        // [2, head_dim]
  // Grown by Sample.
  std::vector<float> sampled_row_;
  std::vector<Choice> choices_;
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
