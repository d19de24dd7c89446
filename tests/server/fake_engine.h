// An engine whose requests do what a test tells them, on a thread of the engine's own.

#ifndef HYDRANT_TESTS_SERVER_FAKE_ENGINE_H_
#define HYDRANT_TESTS_SERVER_FAKE_ENGINE_H_

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/executor.h"

namespace hydrant::server {

// A token a byte; bos is 256.
class ByteTokenizer final : public engine::Tokenizer {
 public:
  int32_t vocab_size() const override { return 257; }
  std::optional<int32_t> bos_id() const override { return 256; }
  std::vector<int32_t> eos_ids() const override { return {}; }
  std::vector<std::pair<std::string, std::string>> named_tokens() const override { return {}; }
  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const override {
    std::vector<int32_t> ids;
    if (add_special_tokens) ids.push_back(256);
    for (char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    std::string text;
    for (int32_t id : ids) {
      if (id == 256) {
        if (!skip_special_tokens) text += "<bos>";
      } else {
        text += static_cast<char>(id);
      }
    }
    return text;
  }
  // The engine's own affair, which this one has not.
  std::unique_ptr<engine::DecodeStream> StartDecoding(bool skip_special_tokens) const override {
    return nullptr;
  }
  std::string TokenText(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  bool IsSpecial(int32_t id) const override { return id == 256; }
};

class FakeEngine final : public engine::Engine {
 public:
  struct Submitted {
    engine::GenerateRequest request;
    std::optional<std::chrono::steady_clock::time_point> deadline;
  };

  FakeEngine() {
    info_.name = "fake";
    info_.vocab_size = tokenizer_.vocab_size();
    info_.kv_cache_bytes = 1 << 20;
    info_.kv_blocks = 64;
    info_.block_slots = 16;
  }

  // --- for tests ---
  // The next submissions are refused with this.
  void RefuseWith(absl::Status status) {
    std::lock_guard lock(mutex_);
    refusal_ = std::move(status);
  }
  // What is said before a request is looked at.
  void SetRoom(absl::Status room) {
    std::lock_guard lock(mutex_);
    room_ = std::move(room);
  }
  // Waits for the n-th accepted request, from 0.
  Submitted Request(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return submitted_.size() > n; });
    return submitted_[n];
  }
  void WaitForCancel(const std::string& id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancels_[id] > 0; });
  }
  int Cancels(const std::string& id) {
    std::lock_guard lock(mutex_);
    return cancels_[id];
  }
  void SetLoad(engine::LoadStats load) {
    std::lock_guard lock(mutex_);
    load_ = load;
  }
  // Runs `act` on the engine's thread with the request's sink; returns when it was done.
  void Emit(const std::string& id, std::function<void(engine::ResponseSink&)> act) {
    OnThread([&] {
      std::lock_guard lock(mutex_);
      act(*sinks_.at(id));
    });
  }
  void Finish(const std::string& id) {
    OnThread([&] {
      if (auto sink = Take(id)) sink->OnFinished({});
    });
  }
  void Fail(const std::string& id, absl::Status status) {
    OnThread([&] { End(id, status); });
  }

  // --- Engine ---
  absl::Status Submit(engine::GenerateRequest request, std::unique_ptr<engine::ResponseSink> sink,
                      std::optional<std::chrono::steady_clock::time_point> deadline) override {
    std::lock_guard lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    if (load_.draining) return absl::UnavailableError("the server is draining");
    sinks_[request.request_id] = std::move(sink);
    submitted_.push_back({std::move(request), deadline});
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::Status CheckRoom() override {
    std::lock_guard lock(mutex_);
    return load_.draining ? absl::UnavailableError("the server is draining") : room_;
  }
  bool Cancel(std::string_view request_id) override {
    const std::string id(request_id);
    {
      std::lock_guard lock(mutex_);
      ++cancels_[id];
      changed_.notify_all();
      if (!sinks_.contains(id)) return false;
    }
    thread_.Post([this, id] { End(id, absl::CancelledError("cancelled")); });
    return true;
  }
  void StartDraining() override {
    std::lock_guard lock(mutex_);
    load_.draining = true;
  }
  void GiveUp() override {
    std::lock_guard lock(mutex_);
    load_.draining = true;
    load_.healthy = false;
  }
  bool Drained() const override {
    std::lock_guard lock(mutex_);
    return load_.draining && sinks_.empty();
  }
  void AbortAll(absl::Status status) override {
    std::vector<std::string> ids;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [id, sink] : sinks_) ids.push_back(id);
    }
    for (const std::string& id : ids) thread_.Post([this, id, status] { End(id, status); });
  }
  const engine::ModelInfo& model_info() const override { return info_; }
  engine::LoadStats load() const override {
    std::lock_guard lock(mutex_);
    return load_;
  }
  const engine::Tokenizer& tokenizer() const override { return tokenizer_; }
  absl::StatusOr<std::string> RenderChat(const engine::chat::Conversation& chat) const override {
    if (chat.messages.empty())
      return absl::InvalidArgumentError("chat.messages: must not be empty");
    std::string text;
    for (const engine::chat::Message& m : chat.messages) text += m.role + ":" + m.content + "\n";
    return text + (chat.add_generation_prompt ? "assistant:" : "");
  }

 private:
  void OnThread(const std::function<void()>& act) {
    std::promise<void> done;
    thread_.Post([&] {
      act();
      done.set_value();
    });
    done.get_future().get();
  }
  std::unique_ptr<engine::ResponseSink> Take(const std::string& id) {
    std::lock_guard lock(mutex_);
    auto node = sinks_.extract(id);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  void End(const std::string& id, const absl::Status& status) {
    if (auto sink = Take(id)) sink->OnError(status);
  }

  ByteTokenizer tokenizer_;
  engine::ModelInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status refusal_, room_;
  engine::LoadStats load_;
  std::vector<Submitted> submitted_;
  std::map<std::string, int> cancels_;
  std::map<std::string, std::unique_ptr<engine::ResponseSink>> sinks_;
  Executor thread_{1};  // goes first
};

}  // namespace hydrant::server

#endif  // HYDRANT_TESTS_SERVER_FAKE_ENGINE_H_
