// What is the CPU backend's own: choosing instruction set and threads, its KV memory.

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cpu/cpu_kv_store.h"
#include "kernels/cpu/isa_select.h"
#include "kernels/cpu/topology.h"
#include "kernels/quantization.h"
#include "tests/kernels/backends.h"

namespace hydrant::kernels {
namespace {

TEST(CpuTopology, ReadsTheQuotaOfACgroup) {
  EXPECT_EQ(cpu::ParseCpuMax("200000 100000\n"), 2.0);
  EXPECT_EQ(cpu::ParseCpuMax("50000 100000"), 0.5);
  EXPECT_EQ(cpu::ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(cpu::ParseCpuMax(""), std::nullopt);
  EXPECT_EQ(cpu::ParseCpuMax("100000"), std::nullopt);
  EXPECT_EQ(cpu::ParseCpuMax("-1 100000"), std::nullopt);
}

TEST(CpuTopology, ThereIsAtLeastOneCore) { EXPECT_GE(cpu::UsableCores(), 1); }

class CpuIsaTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("HYDRANT_ISA"); }
};

TEST_F(CpuIsaTest, AutoTakesTheBest) {
  unsetenv("HYDRANT_ISA");
  auto chosen = cpu::SelectIsa("auto");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ((*chosen)->name, cpu::SupportedIsas().front());
}

TEST_F(CpuIsaTest, TheEnvironmentDecidesForAutoAlone) {
  setenv("HYDRANT_ISA", "portable", 1);
  EXPECT_STREQ((*cpu::SelectIsa("auto"))->name, "portable");
  const std::string best = cpu::SupportedIsas().front();
  EXPECT_EQ((*cpu::SelectIsa(best))->name, best);
  setenv("HYDRANT_ISA", "sse9", 1);
  const absl::Status status = cpu::SelectIsa("auto").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("HYDRANT_ISA"), std::string::npos);
  EXPECT_NE(status.ToString().find("sse9"), std::string::npos);
}

TEST_F(CpuIsaTest, UnknownNamesAreRefusedByName) {
  auto backend = CreateCpuBackend({.threads = 1, .isa = "neon"});
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(backend.status().ToString().find("\"neon\""), std::string::npos);
}

TEST(CpuBackend, HasTheThreadsThatWereAskedFor) {
  EXPECT_EQ((*CreateCpuBackend({.threads = 3, .isa = "portable"}))->num_threads(), 3);
  EXPECT_EQ((*CreateCpuBackend({.threads = 0, .isa = "portable"}))->num_threads(),
            cpu::UsableCores());
  for (const int threads : {-1, 100000}) {
    const absl::Status status = CreateCpuBackend({.threads = threads}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.ToString().find(std::to_string(threads)), std::string::npos);
  }
}

TEST(CpuKvStore, CountsTheBytesOfABlock) {
  auto backend = *CreateCpuBackend({.threads = 1, .isa = "portable"});
  const size_t slots = 2 * 3 * 16;  // layers, heads, slots of a block
  EXPECT_EQ(backend->KvBlockBytes({2, 3, 64, KvDType::kBF16, 10, {}}), slots * (2 * 64 * 2 + 8));
  EXPECT_EQ(backend->KvBlockBytes({2, 3, 64, KvDType::kF32, 10, {}}), slots * (2 * 64 * 4 + 8));
  EXPECT_EQ(backend->KvBlockBytes({2, 3, 64, KvDType::kInt8, 10, {}}), slots * (2 * (64 + 4) + 8));
  // Keys of 6 and 4 bits, values of 4 and 2, and two ranges of four bytes for each.
  EXPECT_EQ(backend->KvBlockBytes({2, 3, 64, KvDType::kInt4, 10, {}}),
            slots * (48 + 32 + 2 * 8 + 8));
  EXPECT_EQ(backend->KvBlockBytes({2, 3, 64, KvDType::kKivi2, 10, {}}),
            slots * (32 + 16 + 2 * 8 + 8));
}

// Rounded as the quantised dtypes round, to `bits`; the others hold small whole numbers exactly.
std::vector<float> AsStored(const float* elements, int head_dim, KvDType dtype, int bits) {
  std::vector<float> stored(elements, elements + head_dim);
  if (KvIsGrouped(dtype)) {
    std::vector<uint8_t> levels(head_dim);
    std::vector<GroupRange> ranges(KvGroups(head_dim));
    HadamardRotate(stored.data(), head_dim);
    QuantizeGroups(stored.data(), head_dim, kKvGroupChannels, bits, levels.data(), ranges.data());
    for (int d = 0; d < head_dim; ++d) {
      const GroupRange& range = ranges[d / kKvGroupChannels];
      stored[d] = RangeNumber(range.zero) + levels[d] * RangeNumber(range.scale);
    }
    HadamardRotate(stored.data(), head_dim);
    return stored;
  }
  if (dtype != KvDType::kInt8) return stored;
  std::vector<int8_t> values(head_dim);
  const float scale = QuantizeInt8(elements, head_dim, values.data());
  for (int d = 0; d < head_dim; ++d) stored[d] = values[d] * scale;
  return stored;
}

TEST(CpuKvStore, PrefaultingAndMovingKeepWhatIsStored) {
  for (const KvDType dtype : kKvDTypes) {
    for (const int head_dim : {1, 7, 8, 16, 64, 80}) {
      SCOPED_TRACE(head_dim);
      const KvGeometry geometry{2, 2, head_dim, dtype, 5, {}};
      auto backend = *CreateCpuBackend({.threads = 1, .isa = "portable"});
      const AttentionShape shape{2, 2, head_dim, 1.0f};
      backend->Reserve(64, 64, 80, shape);
      cpu::CpuKvStore store(geometry);
      std::vector<float> rows(40 * 6 * head_dim);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 251);
      const std::vector<float> original = rows;
      const std::vector<int32_t> blocks = {4, 0, 2};
      Batch batch;
      batch.token_ids.resize(40);
      for (int i = 0; i < 40; ++i) batch.positions.push_back(i);
      batch.sequences.push_back(
          {.first_row = 0, .num_rows = 40, .num_slots = 40, .blocks = blocks.data()});
      backend->RopeAndStore(batch, shape, 0, {nullptr, 40, 0}, {rows.data(), 40, 6 * head_dim}, 1,
                            store);
      store.Prefault(0, 5);
      store.MoveSlot(1, 1, 2 * 16 + 7, 4 * 16 + 2);  // token 39 over token 2
      std::vector<float> key(head_dim), value(head_dim);
      for (int token = 0; token < 40; ++token) {
        const int64_t slot = blocks[token / 16] * 16 + token % 16;
        const int expected = token == 2 ? 39 : token;
        EXPECT_EQ(store.Position(1, 1, slot), expected);
        store.ReadKeyValue(1, 1, slot, key.data(), value.data());
        const float* row = original.data() + expected * 6 * head_dim;
        ASSERT_EQ(key, AsStored(row + 3 * head_dim, head_dim, dtype, KvBitsOf(dtype).key));
        ASSERT_EQ(value, AsStored(row + 5 * head_dim, head_dim, dtype, KvBitsOf(dtype).value));
      }
    }
  }
}

TEST(CpuKvStoreDeathTest, PrefaultsOnlyBlocksThatExist) {
  cpu::CpuKvStore store({1, 1, 16, KvDType::kBF16, 4, {}});
  store.Prefault(4, 0);
  EXPECT_DEATH(store.Prefault(3, 2), "invariant broken");
}

}  // namespace
}  // namespace hydrant::kernels
