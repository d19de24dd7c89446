#include "server/response_buffer.h"

#include <iterator>
#include <utility>
#include <vector>

namespace hydrant::server {
namespace {

// At least what the delta takes on the wire.
size_t WireBytes(const engine::Delta& delta) {
  size_t bytes = delta.text.size() + 5 * delta.token_ids.size();
  for (const engine::TokenLogprobs& token : delta.logprobs) {
    bytes += 16;
    for (const engine::TopLogprob& top : token.top) bytes += 20 + top.text.size();
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
  const size_t bytes = WireBytes(delta);
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

void ResponseBuffer::End(absl::Status status) { status_ = std::move(status); }

std::optional<ResponseBuffer::Event> ResponseBuffer::Pop() {
  if (prompt_info_) {
    Event event = std::move(*prompt_info_);
    prompt_info_.reset();
    return event;
  }
  if (!deltas_.empty()) {
    Event event = std::move(deltas_.front());
    deltas_.pop_front();
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
}

}  // namespace hydrant::server
