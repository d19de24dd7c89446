// The emulator itself: right kernels run in any order, and a fault of each kind ends the process.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/fault_kernels.h"

namespace cuda_emulator {
namespace {

// `count` numbers in device memory, 0, 1, 2, ...
class DeviceNumbers {
 public:
  explicit DeviceNumbers(size_t count) : bytes_(count * sizeof(float)) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes_), cudaSuccess);
    data_ = static_cast<float*>(memory);
    std::vector<float> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    cudaMemcpyAsync(data_, numbers.data(), bytes_, cudaMemcpyHostToDevice, nullptr);
  }
  ~DeviceNumbers() { cudaFree(data_); }
  float* data() const { return data_; }
  std::vector<float> ToHost() const {
    std::vector<float> numbers(bytes_ / sizeof(float));
    cudaMemcpyAsync(numbers.data(), data_, bytes_, cudaMemcpyDeviceToHost, nullptr);
    return numbers;
  }

 private:
  size_t bytes_;
  float* data_ = nullptr;
};

class CudaEmulatorTest : public ::testing::Test {
 protected:
  DeviceNumbers x_{64}, out_{64};
};
using CudaEmulatorDeathTest = CudaEmulatorTest;

constexpr float kSumOf64 = 63 * 64 / 2;

TEST_F(CudaEmulatorTest, RightKernelsAreRightInAnyOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SetSeed(seed);
    RunSum(x_.data(), out_.data(), Fault::kNone);
    EXPECT_EQ(out_.ToHost()[0], kSumOf64);
    RunWarpSum(x_.data(), out_.data(), ~0u, false);
    EXPECT_EQ(out_.ToHost()[0], 31 * 32 / 2);
    RunWarpExchange(x_.data(), out_.data(), true);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(out_.ToHost()[i], i ^ 1);
    RunIndex(x_.data(), out_.data(), 63, 63);
    EXPECT_EQ(out_.ToHost()[0], 126.0f);
    RunScore(x_.data(), out_.data(), 64, false);
    EXPECT_EQ(out_.ToHost()[5], (5 ^ 1) + 5.0f);
  }
}

TEST_F(CudaEmulatorTest, AtomicsAreNoRace) {
  const DeviceNumbers count(1);  // 0.0f has the bits of 0
  RunCount(reinterpret_cast<int*>(count.data()), 5);
  int result = 0;
  cudaMemcpyAsync(&result, count.data(), sizeof(result), cudaMemcpyDeviceToHost, nullptr);
  EXPECT_EQ(result, 5 * 64);
}

TEST_F(CudaEmulatorDeathTest, AMissingBarrierIsARace) {
  EXPECT_DEATH(RunSum(x_.data(), out_.data(), Fault::kMissingBarrier), "SumKernel.*race: shared");
}

TEST_F(CudaEmulatorDeathTest, AMissingWarpBarrierIsARace) {
  EXPECT_DEATH(RunWarpExchange(x_.data(), out_.data(), false), "race: shared");
}

TEST_F(CudaEmulatorDeathTest, ABarrierThatHalfTheBlockReaches) {
  EXPECT_DEATH(RunSum(x_.data(), out_.data(), Fault::kDivergentBarrier), "never come");
}

TEST_F(CudaEmulatorDeathTest, ABlockThatMeetsAtTwoBarriers) {
  EXPECT_DEATH(RunSum(x_.data(), out_.data(), Fault::kTwoBarriers), "meet at barriers");
}

TEST_F(CudaEmulatorDeathTest, WrongMasks) {
  EXPECT_DEATH(RunWarpSum(x_.data(), out_.data(), 0xffff, false), "mask 0xffff");
  EXPECT_DEATH(RunWarpSum(x_.data(), out_.data(), 0xffff, true), "not the whole warp");
  EXPECT_DEATH(RunWarpSum(x_.data(), out_.data(), ~0u, true), "never come");
}

TEST_F(CudaEmulatorDeathTest, IndicesOutOfBounds) {
  EXPECT_DEATH(RunIndex(x_.data(), out_.data(), 64, 0), "shared memory read out of bounds");
  EXPECT_DEATH(RunIndex(x_.data(), out_.data(), -1, 0), "shared memory read out of bounds");
  EXPECT_DEATH(RunIndex(x_.data(), out_.data(), 0, 64), "device memory read out of bounds");
  EXPECT_DEATH(RunIndex(x_.data(), out_.data(), 0, -1), "device memory read out of bounds");
}

TEST_F(CudaEmulatorDeathTest, SharedMemoryThatNobodyWrote) {
  EXPECT_DEATH(RunUnwritten(out_.data()), "before it is written");
}

TEST_F(CudaEmulatorDeathTest, ARaceOnAScore) {
  EXPECT_DEATH(RunScore(x_.data(), out_.data(), 64, true), "ScoreKernel.*race: device");
}

TEST_F(CudaEmulatorDeathTest, HostMemoryInAKernelAndDeviceMemoryOutside) {
  std::vector<float> host(64);
  EXPECT_DEATH(RunSum(host.data(), out_.data(), Fault::kNone), "host memory read");
  EXPECT_DEATH(std::exit(x_.data()[3] == 0.0f), "");
}

// What has not been waited for is not there: the rows copied in the meantime hold something else.
TEST_F(CudaEmulatorTest, AsyncCopiesArriveWhenWaitedFor) {
  const DeviceNumbers x(256), out(256);
  RunAsyncCopy(x.data(), out.data(), true);
  EXPECT_EQ(out.ToHost(), x.ToHost());
  RunAsyncCopy(x.data(), out.data(), false);
  EXPECT_NE(out.ToHost(), x.ToHost());
}

}  // namespace
}  // namespace cuda_emulator
