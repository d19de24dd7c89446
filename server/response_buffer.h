// What one stream still has to send. While a message is on its way to the client, the deltas that
// follow are merged, so that a slow reader costs one message for many tokens and no token is lost.
// Not thread-safe.

#ifndef HYDRANT_SERVER_RESPONSE_BUFFER_H_
#define HYDRANT_SERVER_RESPONSE_BUFFER_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "engine/request.h"

namespace hydrant::server {

class ResponseBuffer {
 public:
  // Merged deltas stay below about this size, well inside the 4 MB that clients accept by default.
  static constexpr size_t kMaxDeltaBytes = 1 << 20;

  // The next event to send; a Status is the stream's end without `finished`.
  using Event = std::variant<engine::PromptInfo, engine::Delta, engine::Finished, absl::Status>;

  void Push(engine::PromptInfo info);
  void Push(engine::Delta delta);
  void End(engine::Finished finished);
  void End(absl::Status status);  // also in the place of another end

  // About the memory that the deltas which wait take.
  size_t held_bytes() const { return held_bytes_; }

  bool ended() const { return finished_ || status_; }
  // In the order of arrival; nullopt when nothing waits. Nothing follows the end.
  std::optional<Event> Pop();
  // The client is gone: forgets everything but an end that has come.
  void DropPending();

 private:
  std::optional<engine::PromptInfo> prompt_info_;
  std::deque<engine::Delta> deltas_;
  size_t last_delta_bytes_ = 0;
  size_t held_bytes_ = 0;
  std::optional<engine::Finished> finished_;
  std::optional<absl::Status> status_;
  bool end_popped_ = false;
};

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_RESPONSE_BUFFER_H_
