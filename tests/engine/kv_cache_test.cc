// How large the KV pool is, in the host's memory and in that of a device.

#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include "engine/memory_limit.h"
#ifdef HYDRANT_TEST_EMULATED_CUDA
#include "tests/cuda_emulator/emulated_backend.h"
#endif

namespace hydrant::engine {
namespace {

constexpr kernels::KvGeometry kGeometry{1, 1, 16, kernels::KvDType::kBF16, 0, {}};

TEST(KvCacheTest, InHostMemoryIsAQuarterOfWhatIsLeft) {
  const auto backend = kernels::CreateReferenceBackend();
  EXPECT_FALSE(backend->FreeDeviceBytes().has_value());
  const int64_t bytes = DefaultKvCacheBytes(*backend, int64_t{1} << 50);
  EXPECT_GT(bytes, 0);
  EXPECT_LE(bytes, int64_t{4} << 30);
  EXPECT_LT(bytes, AvailableMemoryBytes());
}

TEST(KvCacheTest, HoldsWholeBlocks) {
  const auto backend = kernels::CreateReferenceBackend();
  const auto block = static_cast<int64_t>(backend->KvBlockBytes(kGeometry));
  const auto cache = KvCache::Create(*backend, kGeometry, 3 * block + block / 2);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->num_blocks(), 3);
  EXPECT_EQ(KvCache::Create(*backend, kGeometry, block - 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

#ifdef HYDRANT_TEST_EMULATED_CUDA
TEST(KvCacheTest, OnADeviceIsWhatIsFreeThereBesideTheWeights) {
  const auto backend = kernels::CreateEmulatedCudaBackend();
  ASSERT_TRUE(backend->FreeDeviceBytes().has_value());
  const int64_t free = *backend->FreeDeviceBytes();
  EXPECT_EQ(DefaultKvCacheBytes(*backend, free / 2), free / 10 * 9 - free / 2);
  EXPECT_EQ(DefaultKvCacheBytes(*backend, free), 0);
  const absl::Status status = KvCache::Create(*backend, kGeometry, free + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("the device has left"), std::string::npos) << status;
}
#endif

}  // namespace
}  // namespace hydrant::engine
