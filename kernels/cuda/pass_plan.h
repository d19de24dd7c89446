// What a Batch is on the device, and how attention goes through it. Sent once a pass: the ops of
// later layers find that nothing has changed.

#ifndef HYDRANT_KERNELS_CUDA_PASS_PLAN_H_
#define HYDRANT_KERNELS_CUDA_PASS_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_batch.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

struct PassPlan {
  DeviceBatch batch;
  // Singles whose parts and logits fit the scratch memory together.
  struct Decode {
    int first_tile, tiles, first_single, singles, max_splits;
  };
  std::vector<Decode> decodes;
  int first_prefill_tile = 0, prefill_tiles = 0;
  int scored_prefills = 0, scored_max_slots = 0;
};

class Planner {
 public:
  explicit Planner(const Device& device) : sender_(device), memory_(device) {}

  void Reserve(int max_rows);
  // Aborts where the batch contradicts itself or the store. No single has more than max_splits
  // splits. The plan is good until the next call.
  const PassPlan& Plan(const Batch& batch, const AttentionShape& shape, const KvGeometry& kv,
                       int max_splits);

 private:
  struct Offsets {
    size_t positions, sequence_of_row, sequences, blocks, holes, singles, scored, tiles;
  };
  void AddSequence(const BatchSequence& sequence, const KvGeometry& kv, int first_split);
  void AddTiles(const Batch& batch, bool singles, int group, int tile_queries);

  std::vector<int32_t> words_, sent_;  // everything is 32 bits wide
  std::vector<DeviceSequence> sequences_;
  std::vector<int32_t> blocks_, holes_, singles_, scored_, rows_;
  std::vector<QueryTile> tiles_;
  Sender sender_;
  DeviceMemory memory_;
  PassPlan plan_;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_PASS_PLAN_H_
