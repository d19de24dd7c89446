// Nothing is allocated in the ops of a pass, nor by eviction, once Reserve has been called. This
// program's operator new counts, so it stands alone.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "kernels/evicted_store.h"
#include "kernels/recall.h"
#include "tests/kernels/backends.h"

namespace {

std::atomic<int64_t> allocations = 0;

void* CountedAllocation(size_t bytes, size_t alignment) {
  ++allocations;
  const size_t padded = (bytes + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, padded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

// Kept out of line: inlined, g++ takes malloc and free for a mismatched pair with new and delete.
[[gnu::noinline]] void* operator new(size_t bytes) {
  return CountedAllocation(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return CountedAllocation(bytes, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace hydrant::kernels {
namespace {

class IgnoringStore : public EvictedStore {
 public:
  bool takes_values() const override { return true; }
  void Take(int, int, int32_t, int32_t, const float*, const float*) override {}
};

class BackendAllocationTest : public BackendTest {};

TEST_P(BackendAllocationTest, NothingIsAllocatedAfterReserve) {
  constexpr int kRows = 40, kWidth = 128, kBlocks = 4, kLayers = 2;
  const AttentionShape attention{4, 2, 32, 0.2f};
  std::unique_ptr<Backend> backend = MakeBackend(GetParam(), 2);

  const std::vector<float> weights = RandomValues(1, kWidth * 2 * kWidth);
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  for (const WeightDType dtype :
       {WeightDType::kF32, WeightDType::kBF16, WeightDType::kInt8, WeightDType::kInt4}) {
    auto packed = backend->Pack(SourceOf(weights, 2 * kWidth, kWidth), dtype);
    ASSERT_TRUE(packed.ok());
    matrices.push_back(*std::move(packed));
  }
  std::vector<std::unique_ptr<KvStore>> stores;
  for (const KvDType dtype : kKvDTypes) {
    auto kv = backend->CreateKvStore({kLayers, 2, 32, dtype, kBlocks, {0, 9}});
    ASSERT_TRUE(kv.ok());
    (*kv)->Prefault(0, kBlocks);
    stores.push_back(*std::move(kv));
  }
  backend->Reserve(kRows, kWidth, kBlocks * kBlockSlots, attention);

  auto table = backend->MakeTable(SourceOf(weights, 2 * kWidth, kWidth), nullptr);
  ASSERT_TRUE(table.ok());
  const Buffer norm = backend->Upload(RandomValues(2, kWidth));
  const Buffer bias = backend->Upload(RandomValues(3, 2 * kWidth));
  const DeviceRows x = ToDevice(*backend, RandomValues(4, kRows * kWidth), kRows, kWidth);
  const DeviceRows y = ToDevice(*backend, RandomValues(5, kRows * kWidth), kRows, kWidth);
  const DeviceRows wide =
      ToDevice(*backend, RandomValues(6, kRows * 2 * kWidth), kRows, 2 * kWidth);
  const DeviceRows angles = ToDevice(*backend, std::vector<float>(kRows * 32), kRows, 32);
  const RopeParams rope{32, std::vector<float>(16, 0.1f), 1.0f};

  const std::vector<int32_t> blocks = {2, 0, 3};
  std::vector<int32_t> holes(kLayers * 2, 5);
  Batch prefill, decode;
  for (int i = 0; i < kRows; ++i) {
    prefill.token_ids.push_back(i);
    prefill.positions.push_back(i);
  }
  prefill.sequences.push_back({0, kRows, 0, kRows, blocks.data(), nullptr, true});
  decode.token_ids = {1};
  decode.positions = {kRows};
  decode.sequences.push_back({0, 1, kRows, 13, blocks.data(), holes.data(), true});
  IgnoringStore store;
  const EvictionItem compaction{{2, 6, 5}, kRows, kRows - 1, blocks.data(), nullptr, &store};
  const EvictionItem eviction{{1, 6, 5}, 13, kRows, blocks.data(), holes.data(), &store};
  // An audit of 20 evicted keys in two blocks that are one and the same.
  const std::vector<uint8_t> evicted(kLayers * 2 * EvictedStripBytes(32));
  const std::vector<const uint8_t*> evicted_blocks(2, evicted.data());
  std::vector<float> recall(kLayers * 4);
  const RecallAudit audit{evicted_blocks.data(), 20, recall.data()};
  decode.sequences[0].audit = &audit;

  // Sample may allocate in its first call.
  const std::vector<LogitChange> changes = {{.id = 3, .bias = 1.0f}};
  std::vector<TokenDraw> draws(9);
  std::vector<int32_t> tokens(draws.size());
  for (size_t i = 0; i < draws.size(); ++i) {
    draws[i].row = static_cast<int64_t>(i);
    draws[i].changes = changes;
    draws[i].temperature = 1.0f;
    draws[i].top_p = 0.99f;
  }
  const auto sample = [&] { backend->Sample(wide.matrix, draws, tokens); };
  sample();

  const int64_t before = allocations;
  for (int pass = 0; pass < 2; ++pass) {
    backend->Embed(**table, prefill.token_ids, 1.0f, x.matrix);
    backend->RmsNorm(x.matrix, norm, 1e-5f, y.matrix);
    for (const auto& matrix : matrices) {
      backend->Linear(y.matrix, *matrix, &bias, false, wide.matrix);
    }
    for (const auto& kv : stores) {
      for (const Batch* batch : {&prefill, &decode}) {
        const Matrix qkv{wide.matrix.data, batch->num_rows(), 2 * kWidth};
        const Matrix out{x.matrix.data, batch->num_rows(), kWidth};
        const Matrix rows_angles{angles.matrix.data, batch->num_rows(), 32};
        backend->ComputeRope(rope, batch->positions, rows_angles);
        for (int layer = 0; layer < kLayers; ++layer) {
          backend->RopeAndStore(*batch, attention, 32, rows_angles, qkv, layer, *kv);
          backend->Attention(*batch, attention, layer, qkv, *kv, out);
        }
        if (batch == &prefill) {
          backend->Compact({&compaction, 1}, *kv);
        } else {
          backend->Evict({&eviction, 1}, *kv);
        }
      }
    }
    backend->GatedActivation(Activation::kSilu, wide.matrix, y.matrix);
    backend->GatherRows(y.matrix, prefill.token_ids, x.matrix);
    sample();
  }
  EXPECT_EQ(allocations - before, 0);
}

HYDRANT_INSTANTIATE(BackendAllocationTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
