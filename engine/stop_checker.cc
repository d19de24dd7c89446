#include "engine/stop_checker.h"

#include <algorithm>
#include <utility>

namespace hydrant::engine {
namespace {

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Whether `text` begins and ends at the border of a character when it lies within UTF-8 text.
bool IsWholeCharacters(std::string_view text) {
  if (text.empty() || IsContinuation(text.front())) return false;
  size_t lead = text.size() - 1;
  while (IsContinuation(text[lead])) --lead;
  const auto byte = static_cast<unsigned char>(text[lead]);
  const size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  return text.size() - lead == length;
}

}  // namespace

StopChecker::StopChecker(StopConditions conditions) : conditions_(std::move(conditions)) {
  stop_ids_ = conditions_.eos_token_ids;
  stop_ids_.insert(stop_ids_.end(), conditions_.stop_token_ids.begin(),
                   conditions_.stop_token_ids.end());
  for (const std::string& stop : conditions_.stop) {
    if (!IsWholeCharacters(stop)) continue;
    Pattern& pattern = patterns_.emplace_back();
    pattern.text = stop;
    pattern.border.assign(stop.size() + 1, 0);
    int32_t border = 0;
    for (size_t i = 1; i < stop.size(); ++i) {
      while (border > 0 && stop[i] != stop[border]) border = pattern.border[border];
      border += stop[i] == stop[border];
      pattern.border[i + 1] = border;
    }
  }
}

std::span<const int32_t> StopChecker::banned() const {
  if (num_tokens_ >= conditions_.min_tokens) return {};
  return stop_ids_;
}

bool StopChecker::IsStopToken(int32_t token_id) const {
  return num_tokens_ >= conditions_.min_tokens && Contains(stop_ids_, token_id);
}

bool StopChecker::HidesText(int32_t token_id) const {
  if (!IsStopToken(token_id)) return false;
  return !conditions_.include_stop_str_in_output || Contains(conditions_.eos_token_ids, token_id);
}

StopChecker::Result StopChecker::Advance(std::string_view text) {
  const bool counts = num_tokens_ >= conditions_.min_tokens;
  const size_t before = held_.size();
  held_ += text;
  const Pattern* found = nullptr;
  size_t found_at = 0;
  size_t longest = 0;
  for (Pattern& p : patterns_) {
    for (size_t i = before; i < held_.size(); ++i) {
      while (p.matched > 0 && held_[i] != p.text[p.matched]) p.matched = p.border[p.matched];
      p.matched += held_[i] == p.text[p.matched];
      if (static_cast<size_t>(p.matched) < p.text.size()) continue;
      p.matched = p.border[p.matched];
      if (!counts) continue;
      const size_t at = i + 1 - p.text.size();
      if (found == nullptr || at < found_at) {
        found = &p;
        found_at = at;
      }
      break;
    }
    longest = std::max(longest, static_cast<size_t>(p.matched));
  }

  Result result;
  if (found != nullptr) {
    const bool included = conditions_.include_stop_str_in_output;
    result.text = held_.substr(0, found_at + (included ? found->text.size() : 0));
    result.finished = true;
    result.matched = found->text;
    held_.clear();
  } else {
    result.text = held_.substr(0, held_.size() - longest);
    held_.erase(0, held_.size() - longest);
  }
  return result;
}

StopChecker::Result StopChecker::Add(int32_t token_id, std::string text) {
  const bool stop_token = IsStopToken(token_id);
  ++num_tokens_;
  Result result = Advance(text);
  if (result.finished) return result;
  if (stop_token) {
    result.finished = true;
    result.matched = token_id;
  } else if (num_tokens_ >= conditions_.max_tokens) {
    result.finished = true;
    result.reason = FinishReason::kLength;
  }
  return result;
}

StopChecker::Result StopChecker::Flush(std::string text) {
  Result result = Advance(text);
  if (!result.finished) result.text += std::exchange(held_, {});
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return result;
}

}  // namespace hydrant::engine
