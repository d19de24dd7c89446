#include "server/bench/trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/weights/field_reader.h"
#include "engine/weights/json_file.h"

namespace hydrant::server::bench {
namespace {

using engine::weights::JsonFields;
using nlohmann::json;

constexpr double kMaxArrival = 366.0 * 24 * 3600;

// Fails in `fields` unless each key of `object` is one of `known`.
template <size_t N>
void CheckKeys(const json& object, const std::array<const char*, N>& known, JsonFields& fields) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (const char* name : known) absl::StrAppend(&list, list.empty() ? "" : ", ", name);
    fields.Fail(absl::StrCat("unknown key '", key, "'; known are ", list));
  }
}

std::string UpperCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

v1::EvictionParams ParseEviction(const std::string& where, const json& object,
                                 absl::Status& status) {
  v1::EvictionParams eviction;
  JsonFields fields(where, object);
  if (object.is_object()) {
    CheckKeys(object,
              std::array{"policy", "budget_tokens", "budget_ratio", "sink_tokens", "recent_tokens",
                         "min_budget_tokens", "prefill_eviction", "audit"},
              fields);
  }
  if (const auto name = fields.String("policy")) {
    v1::EvictionParams::Policy policy;
    if (v1::EvictionParams::Policy_Parse(UpperCase(*name), &policy) &&
        policy != v1::EvictionParams::POLICY_UNSPECIFIED) {
      eviction.set_policy(policy);
    } else {
      fields.Fail("policy is none of full, window, streaming and h2o");
    }
  }
  if (const auto name = fields.String("prefill_eviction")) {
    v1::EvictionParams::PrefillEviction prefill;
    if (v1::EvictionParams::PrefillEviction_Parse(UpperCase(*name), &prefill) &&
        prefill != v1::EvictionParams::PREFILL_EVICTION_UNSPECIFIED) {
      eviction.set_prefill_eviction(prefill);
    } else {
      fields.Fail("prefill_eviction is none of after_prompt and per_chunk");
    }
  }
  if (fields.Has("budget_tokens") && fields.Has("budget_ratio")) {
    fields.Fail("budget_tokens and budget_ratio exclude each other");
  }
  // How much is allowed is the server's to say; it is told what was asked.
  if (const auto n = fields.Int("budget_tokens", 1, INT_MAX)) eviction.set_budget_tokens(*n);
  if (const auto ratio = fields.Float("budget_ratio", 0, 1)) {
    eviction.set_budget_ratio(static_cast<float>(*ratio));
  }
  if (const auto n = fields.Int("sink_tokens", 0, INT_MAX)) eviction.set_sink_tokens(*n);
  if (const auto n = fields.Int("recent_tokens", 1, INT_MAX)) eviction.set_recent_tokens(*n);
  if (const auto n = fields.Int("min_budget_tokens", 0, INT_MAX)) {
    eviction.set_min_budget_tokens(*n);
  }
  if (const auto audit = fields.Bool("audit")) eviction.set_audit(*audit);
  status.Update(fields.status());
  return eviction;
}

std::string ParsePrefixId(JsonFields& fields) {
  const json& value = *fields.Find("prefix_id");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  fields.Fail("prefix_id is neither a string nor an integer");
  return "";
}

RandomTokens ParseRandomTokens(JsonFields& fields) {
  RandomTokens tokens;
  tokens.count = fields.RequiredInt("prompt_tokens", 1, kMaxPromptTokens);
  if (fields.Has("prefix_id") != fields.Has("prefix_tokens")) {
    fields.Fail("prefix_id and prefix_tokens go together");
  }
  if (!fields.Has("prefix_id") || !fields.status().ok()) return tokens;
  tokens.prefix_id = ParsePrefixId(fields);
  tokens.prefix_count = fields.RequiredInt("prefix_tokens", 1, tokens.count);
  return tokens;
}

absl::StatusOr<TraceRequest> ParseLine(const std::string& where, std::string_view line) {
  const auto object = engine::weights::ParseJsonObject(where, line);
  if (!object.ok()) return object.status();
  JsonFields fields(where, *object);
  CheckKeys(*object,
            std::array{"prompt_tokens", "text", "token_ids", "max_tokens", "arrival", "prefix_id",
                       "prefix_tokens", "eviction"},
            fields);
  TraceRequest request;
  const int prompts = fields.Has("prompt_tokens") + fields.Has("text") + fields.Has("token_ids");
  if (prompts != 1) fields.Fail("needs one of prompt_tokens, text and token_ids");
  if (fields.Has("prompt_tokens")) {
    request.prompt = ParseRandomTokens(fields);
  } else if (fields.Has("prefix_id") || fields.Has("prefix_tokens")) {
    fields.Fail("prefix_id and prefix_tokens need prompt_tokens");
  }
  if (auto text = fields.String("text")) {
    if (text->empty()) fields.Fail("text is empty");
    request.prompt = *std::move(text);
  }
  if (fields.Has("token_ids")) {
    std::vector<int32_t> ids = fields.Ids("token_ids", INT_MAX);
    if (ids.empty() || ids.size() > kMaxPromptTokens) {
      fields.Fail(absl::StrCat("token_ids needs 1 to ", kMaxPromptTokens, " ids"));
    }
    request.prompt = std::move(ids);
  }
  request.max_tokens = fields.Int("max_tokens", 1, kMaxOutputTokens);
  request.arrival = fields.Float("arrival", 0, kMaxArrival);
  absl::Status status = fields.status();
  if (const json* eviction = fields.Find("eviction")) {
    request.eviction = ParseEviction(absl::StrCat(where, ": eviction"), *eviction, status);
  }
  if (!status.ok()) return status;
  return request;
}

}  // namespace

absl::StatusOr<std::vector<TraceRequest>> ParseTrace(const std::string& where,
                                                     std::string_view text) {
  std::vector<TraceRequest> requests;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto request = ParseLine(absl::StrCat(where, ":", number), line);
    if (!request.ok()) return request.status();
    request->line = number;
    requests.push_back(*std::move(request));
  }
  if (requests.empty()) return absl::InvalidArgumentError(absl::StrCat(where, ": no requests"));
  return requests;
}

}  // namespace hydrant::server::bench
