// The engine through its public API, for tests: a sink that records what it is told and can be
// waited for, and requests for a small checkpoint.

#ifndef HYDRANT_TESTS_ENGINE_ENGINE_DRIVER_H_
#define HYDRANT_TESTS_ENGINE_ENGINE_DRIVER_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"

namespace hydrant::engine {

// What a request's sink saw, and a way to wait for its end.
struct Stream {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<PromptInfo> info;
  std::vector<Delta> deltas;
  std::optional<Finished> finished;
  std::optional<absl::Status> error;
  bool held = false;

  bool done() const { return finished.has_value() || error.has_value(); }
  void Wait() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(ended.wait_for(lock, std::chrono::seconds(120), [&] { return done(); }));
  }
  void WaitForDelta() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(
        ended.wait_for(lock, std::chrono::seconds(120), [&] { return done() || !deltas.empty(); }));
  }
  // Lets the engine go on that SubmitHeld made wait.
  void Release() {
    std::lock_guard lock(mutex);
    held = false;
    ended.notify_all();
  }
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> ids;
    for (const Delta& d : deltas) ids.insert(ids.end(), d.token_ids.begin(), d.token_ids.end());
    return ids;
  }
  std::string text() const {
    std::string all;
    for (const Delta& d : deltas) all += d.text;
    return all;
  }
};

class RecordingSink : public ResponseSink {
 public:
  explicit RecordingSink(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void OnPromptInfo(PromptInfo info) override {
    std::lock_guard lock(stream_->mutex);
    EXPECT_TRUE(stream_->deltas.empty() && !stream_->info);
    stream_->info = std::move(info);
  }
  void OnDelta(Delta delta) override {
    std::unique_lock lock(stream_->mutex);
    EXPECT_TRUE(stream_->info && !stream_->done());
    stream_->deltas.push_back(std::move(delta));
    stream_->ended.notify_all();
    stream_->ended.wait(lock, [&] { return !stream_->held; });
  }
  void OnFinished(Finished finished) override {
    std::lock_guard lock(stream_->mutex);
    EXPECT_FALSE(stream_->done());
    stream_->finished = std::move(finished);
    stream_->ended.notify_all();
  }
  void OnError(absl::Status status) override {
    std::lock_guard lock(stream_->mutex);
    EXPECT_FALSE(stream_->done());
    stream_->error = std::move(status);
    stream_->ended.notify_all();
  }

 private:
  std::shared_ptr<Stream> stream_;
};

inline EngineOptions Options() {
  EngineOptions options;
  options.model_path = HYDRANT_TEST_DATA "/golden/llama-gqa";
  options.threads = 2;
  options.kv_cache_bytes = 8 << 20;
  options.max_num_seqs = 64;
  options.max_batched_tokens = 128;
  return options;
}

inline std::unique_ptr<Engine> LoadEngine(const EngineOptions& options,
                                          std::shared_ptr<EngineObserver> observer = nullptr) {
  auto engine = Engine::Load(options, std::move(observer), [](std::string_view, double) {});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

inline std::vector<int32_t> RandomPrompt(int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids) id = 3 + static_cast<int32_t>(random() % 600);
  return ids;
}

inline GenerateRequest Request(std::vector<int32_t> prompt, int max_tokens) {
  GenerateRequest request;
  request.input = std::move(prompt);
  request.sampling.temperature = 0;
  request.stopping.max_tokens = max_tokens;
  request.stopping.ignore_eos = true;
  return request;
}

// `held`: the engine waits in the stream's first token until it is released, so that what a test
// does meanwhile finds the request running, however fast the machine.
inline std::shared_ptr<Stream> Submit(
    Engine& engine, GenerateRequest request,
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt,
    bool held = false) {
  auto stream = std::make_shared<Stream>();
  stream->held = held;
  const absl::Status status =
      engine.Submit(std::move(request), std::make_unique<RecordingSink>(stream), deadline);
  EXPECT_TRUE(status.ok()) << status;
  return stream;
}

inline std::shared_ptr<Stream> SubmitHeld(
    Engine& engine, GenerateRequest request,
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt) {
  auto stream = Submit(engine, std::move(request), deadline, /*held=*/true);
  stream->WaitForDelta();
  return stream;
}

inline absl::Status TrySubmit(Engine& engine, GenerateRequest request) {
  return engine.Submit(std::move(request),
                       std::make_unique<RecordingSink>(std::make_shared<Stream>()));
}

inline void ExpectAllFree(const Engine& engine) {
  const LoadStats load = engine.load();
  EXPECT_EQ(load.running, 0);
  EXPECT_EQ(load.waiting, 0);
  EXPECT_EQ(load.kv_blocks_free, load.kv_blocks_total);
}

}  // namespace hydrant::engine

#endif  // HYDRANT_TESTS_ENGINE_ENGINE_DRIVER_H_
