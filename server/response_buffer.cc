#include "server/response_buffer.h"

#include <iterator>
#include <utility>
#include <vector>

namespace hydrant::server {
namespace {

// What the delta takes in memory, and so at least what it takes on the wire.
size_t HeldBytes(const engine::Delta& delta) {
  size_t bytes = delta.text.size() + 5 * delta.token_ids.size();
  for (const engine::TokenLogprobs& token : delta.logprobs) {
    bytes += sizeof(token);
    for (const engine::TopLogprob& top : token.top) bytes += sizeof(top) + top.text.size();
  }
  return bytes;
}

template <typename T>
void Append(std::vector<T> from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void ResponseBuffer::Push(engine::PromptInfo info) { prompt_info_ = std::move(info); }

void ResponseBuffer::Push(engine::Delta delta) {
  const size_t bytes = HeldBytes(delta);
  held_bytes_ += bytes;
  if (deltas_.empty() || last_delta_bytes_ + bytes > kMaxDeltaBytes) {
    deltas_.push_back(std::move(delta));
    last_delta_bytes_ = bytes;
    return;
  }
  engine::Delta& last = deltas_.back();
  last.text += delta.text;
  Append(std::move(delta.token_ids), last.token_ids);
  Append(std::move(delta.logprobs), last.logprobs);
  last_delta_bytes_ += bytes;
}

void ResponseBuffer::End(engine::Finished finished) { finished_ = std::move(finished); }

void ResponseBuffer::End(absl::Status status) {
  finished_.reset();
  status_ = std::move(status);
}

std::optional<ResponseBuffer::Event> ResponseBuffer::Pop() {
  if (prompt_info_) {
    Event event = std::move(*prompt_info_);
    prompt_info_.reset();
    return event;
  }
  if (!deltas_.empty()) {
    Event event = std::move(deltas_.front());
    deltas_.pop_front();
    held_bytes_ -= HeldBytes(std::get<engine::Delta>(event));
    return event;
  }
  if (!ended() || end_popped_) return std::nullopt;
  end_popped_ = true;
  if (finished_) return Event(std::move(*finished_));
  return Event(std::move(*status_));
}

void ResponseBuffer::DropPending() {
  prompt_info_.reset();
  deltas_.clear();
  held_bytes_ = 0;
}

}  // namespace hydrant::server
