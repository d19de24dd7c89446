// A request's tokens are a function of the request alone: not of the batch around it, of chunking,
// preemption, arrival or threads.

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/engine_driver.h"

namespace hydrant::engine {
namespace {

// 64 requests of mixed policies, lengths, sampling and arrival times, each token for token what it
// is alone; in dtypes of every kind.
class BatchInvarianceTest
    : public ::testing::TestWithParam<std::pair<kernels::WeightDType, kernels::KvDType>> {};

TEST_P(BatchInvarianceTest, SixtyFourAtOnceAreEachWhatTheyAreAlone) {
  EngineOptions options = Options();
  options.weight_dtype = GetParam().first;
  options.kv_dtype = GetParam().second;
  std::vector<GenerateRequest> requests;
  std::mt19937 random(17);
  for (int i = 0; i < 64; ++i) {
    GenerateRequest request =
        Request(RandomPrompt(1 + random() % 200, 100 + i), 10 + random() % 60);
    const EvictionPolicyKind kinds[] = {EvictionPolicyKind::kFull, EvictionPolicyKind::kWindow,
                                        EvictionPolicyKind::kStreaming, EvictionPolicyKind::kH2O};
    request.eviction.policy = kinds[i % 4];
    if (i % 4 != 0) request.eviction.budget_tokens = 8 + random() % 60;
    if (i % 3 == 1) {
      request.sampling.temperature = 0.9f;
      request.sampling.top_p = 0.95f;
      request.sampling.seed = i;
    }
    requests.push_back(request);
  }

  std::vector<std::vector<int32_t>> alone;
  {
    EngineOptions quiet = options;
    quiet.threads = 1;
    quiet.max_batched_tokens = 64;  // other chunks, too
    const auto engine = LoadEngine(quiet);
    for (const GenerateRequest& request : requests) {
      const auto stream = Submit(*engine, request);
      stream->Wait();
      alone.push_back(stream->tokens());
    }
  }
  options.kv_cache_bytes = 2 << 20;  // FULL ones are preempted
  const auto engine = LoadEngine(options);
  std::vector<std::shared_ptr<Stream>> streams;
  for (const GenerateRequest& request : requests) {
    streams.push_back(Submit(*engine, request));
    if (streams.size() % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    streams[i]->Wait();
    ASSERT_TRUE(streams[i]->finished) << *streams[i]->error;
    EXPECT_EQ(streams[i]->tokens(), alone[i]) << "request " << i;
    if (i % 4 != 0) {
      EXPECT_EQ(streams[i]->finished->usage.preemptions, 0);
    }
  }
  ExpectAllFree(*engine);
}

INSTANTIATE_TEST_SUITE_P(
    DTypes, BatchInvarianceTest,
    ::testing::Values(std::pair{kernels::WeightDType::kF32, kernels::KvDType::kF32},
                      std::pair{kernels::WeightDType::kBF16, kernels::KvDType::kBF16},
                      std::pair{kernels::WeightDType::kInt8, kernels::KvDType::kBF16},
                      std::pair{kernels::WeightDType::kInt8, kernels::KvDType::kInt8},
                      std::pair{kernels::WeightDType::kInt4, kernels::KvDType::kBF16},
                      std::pair{kernels::WeightDType::kBF16, kernels::KvDType::kInt4},
                      std::pair{kernels::WeightDType::kInt8, kernels::KvDType::kInt4},
                      std::pair{kernels::WeightDType::kInt8, kernels::KvDType::kKivi2}));

}  // namespace
}  // namespace hydrant::engine
