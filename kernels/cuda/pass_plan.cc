#include "kernels/cuda/pass_plan.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cuda/attention.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

template <typename T>
size_t Append(std::vector<int32_t>& words, const std::vector<T>& values) {
  static_assert(sizeof(T) % sizeof(int32_t) == 0);
  const size_t at = words.size();
  words.resize(at + values.size() * sizeof(T) / sizeof(int32_t));
  if (!values.empty()) std::memcpy(words.data() + at, values.data(), values.size() * sizeof(T));
  return at;
}

int TilesOf(int queries, int tile_queries) { return (queries + tile_queries - 1) / tile_queries; }

}  // namespace

void Planner::Reserve(int max_rows) {
  constexpr int kWordsARow = 64, kMoreWords = 1 << 16;
  memory_.Of<int32_t>(kMoreWords + kWordsARow * max_rows);
  for (auto* words : {&words_, &sent_}) words->reserve(kMoreWords + kWordsARow * max_rows);
  for (auto* words : {&blocks_, &holes_}) words->reserve(kMoreWords);
  for (auto* words : {&singles_, &scored_, &rows_}) words->reserve(max_rows);
  sequences_.reserve(max_rows);
  tiles_.reserve(8 * max_rows);
  plan_.decodes.reserve(max_rows);
}

void Planner::AddSequence(const BatchSequence& s, const KvGeometry& kv, int first_split) {
  DeviceSequence sequence{
      s.first_row,           s.num_rows, s.num_slots, static_cast<int32_t>(blocks_.size()), -1,
      s.keep_scores ? 1 : 0, first_split};
  for (int i = 0; i < (s.num_slots + kBlockSlots - 1) / kBlockSlots; ++i) {
    HYDRANT_CHECK(s.blocks[i] >= 0 && s.blocks[i] < kv.num_blocks);
    blocks_.push_back(s.blocks[i]);
  }
  if (s.holes != nullptr) {
    sequence.holes = static_cast<int32_t>(holes_.size());
    for (int i = 0; i < kv.layers * kv.kv_heads; ++i) {
      HYDRANT_CHECK(s.holes[i] >= 0 && s.holes[i] < s.num_slots);
      holes_.push_back(s.holes[i]);
    }
  }
  sequences_.push_back(sequence);
}

void Planner::AddTiles(const Batch& batch, bool singles, int group, int tile_queries) {
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const int rows = batch.sequences[i].num_rows;
    if ((rows == 1) != singles) continue;
    for (int tile = 0; tile < TilesOf(rows * group, tile_queries); ++tile) {
      tiles_.push_back({static_cast<int32_t>(i), tile * tile_queries});
    }
  }
}

const PassPlan& Planner::Plan(const Batch& batch, const AttentionShape& shape, const KvGeometry& kv,
                              int max_splits) {
  HYDRANT_CHECK(shape.kv_heads == kv.kv_heads && shape.head_dim == kv.head_dim);
  HYDRANT_CHECK(shape.heads > 0 && shape.heads % shape.kv_heads == 0);
  HYDRANT_CHECK(batch.positions.size() == batch.token_ids.size());
  const int group = shape.heads / shape.kv_heads;
  const int decode_tiles = TilesOf(group, kDecodeQueries);
  words_.clear();
  sequences_.clear();
  blocks_.clear();
  holes_.clear();
  singles_.clear();
  scored_.clear();
  tiles_.clear();
  rows_.assign(batch.num_rows(), -1);
  plan_.decodes.clear();
  plan_.scored_max_slots = 0;

  int splits = 0;  // in use by the last of plan_.decodes
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& s = batch.sequences[i];
    HYDRANT_CHECK(s.first_row >= 0 && s.num_rows > 0 && s.num_rows <= s.num_slots);
    HYDRANT_CHECK(s.first_row <= batch.num_rows() - s.num_rows);
    HYDRANT_CHECK((s.holes == nullptr && s.audit == nullptr) || s.num_rows == 1);
    std::fill_n(rows_.begin() + s.first_row, s.num_rows, static_cast<int32_t>(i));
    int first_split = 0;
    if (s.num_rows == 1) {
      const int own = SplitsOf(s.num_slots);
      HYDRANT_CHECK(own <= max_splits);
      if (plan_.decodes.empty() || splits + own > max_splits) {
        const int before = static_cast<int>(singles_.size());
        plan_.decodes.push_back({before * decode_tiles, 0, before, 0, 0});
        splits = 0;
      }
      PassPlan::Decode& decode = plan_.decodes.back();
      decode.tiles += decode_tiles;
      decode.singles += 1;
      decode.max_splits = std::max(decode.max_splits, own);
      first_split = splits;
      splits += own;
      singles_.push_back(static_cast<int32_t>(i));
    } else if (s.keep_scores) {
      scored_.push_back(static_cast<int32_t>(i));
      plan_.scored_max_slots = std::max(plan_.scored_max_slots, s.num_slots);
    }
    AddSequence(s, kv, first_split);
  }
  // A row without a sequence has nowhere to go.
  HYDRANT_CHECK(std::find(rows_.begin(), rows_.end(), -1) == rows_.end());
  AddTiles(batch, true, group, kDecodeQueries);
  plan_.first_prefill_tile = static_cast<int>(tiles_.size());
  AddTiles(batch, false, group, PrefillQueries(kv.dtype, kv.head_dim));
  plan_.prefill_tiles = static_cast<int>(tiles_.size()) - plan_.first_prefill_tile;
  plan_.scored_prefills = static_cast<int>(scored_.size());

  const Offsets at{Append(words_, batch.positions), Append(words_, rows_),
                   Append(words_, sequences_),      Append(words_, blocks_),
                   Append(words_, holes_),          Append(words_, singles_),
                   Append(words_, scored_),         Append(words_, tiles_)};
  auto* const device = memory_.Of<int32_t>(words_.size());
  if (words_ != sent_) {
    const size_t bytes = words_.size() * sizeof(int32_t);
    std::memcpy(sender_.Prepare(bytes), words_.data(), bytes);
    sender_.Send(device, bytes);
    sent_ = words_;
  }
  plan_.batch = {device + at.positions,
                 device + at.sequence_of_row,
                 reinterpret_cast<const DeviceSequence*>(device + at.sequences),
                 device + at.blocks,
                 device + at.holes,
                 device + at.singles,
                 device + at.scored,
                 reinterpret_cast<const QueryTile*>(device + at.tiles)};
  return plan_;
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
