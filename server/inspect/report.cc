// The two forms of an inspection: for people, and as JSON.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/byte_size.h"
#include "server/inspect/inspection.h"

namespace hydrant::server {
namespace {

using engine::EvictionPolicyKind;
using engine::ModelConfig;
using nlohmann::ordered_json;

// As --eviction spells it.
const char* PolicyFlag(EvictionPolicyKind policy) {
  switch (policy) {
    case EvictionPolicyKind::kFull:
      return "full";
    case EvictionPolicyKind::kWindow:
      return "window";
    case EvictionPolicyKind::kStreaming:
      return "streaming";
    case EvictionPolicyKind::kH2O:
      return "h2o";
  }
  return "";
}

void Line(std::string* out, std::string_view name, const std::string& value) {
  absl::StrAppendFormat(out, "%-16s%s\n", std::string(name), value);
}

std::string TokenText(const Inspection::Token& token) {
  return absl::StrCat(token.id, " \"", absl::Utf8SafeCEscape(token.text), "\"");
}

// Millions, unless that would round much away.
std::string Count(int64_t count) {
  if (count < 1'000'000) return absl::StrCat(count);
  return absl::StrFormat("%.1f M", static_cast<double>(count) / 1e6);
}

// "512 tokens in 15 of 18 layers"; empty when no layer has a window.
std::string WindowText(const ModelConfig& config) {
  const auto& windows = config.sliding_windows;
  const auto windowed =
      std::count_if(windows.begin(), windows.end(), [](int32_t w) { return w > 0; });
  if (windowed == 0) return "";
  const int32_t widest = *std::max_element(windows.begin(), windows.end());
  return absl::StrCat(widest, " tokens in ", windowed, " of ", windows.size(), " layers");
}

std::string SamplingText(const engine::weights::GenerationConfig& generation) {
  std::string text;
  const auto add = [&](const char* name, const auto& value) {
    if (value) absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", *value);
  };
  if (generation.do_sample == false) text = "greedy unless asked otherwise";
  add("temperature", generation.temperature);
  add("top_p", generation.top_p);
  add("top_k", generation.top_k);
  add("min_p", generation.min_p);
  add("repetition_penalty", generation.repetition_penalty);
  return text.empty() ? "the checkpoint names no defaults" : text;
}

void AppendTokenizer(const Inspection& i, std::string* out) {
  const Inspection::TokenizerInfo& tokenizer = i.tokenizer;
  std::string kind = tokenizer.kind.empty() ? "of no named kind" : tokenizer.kind;
  if (!tokenizer.status.ok()) {
    Line(out, "tokenizer", absl::StrCat(kind, "; CANNOT BE USED: ", tokenizer.status.message()));
    return;
  }
  Line(out, "tokenizer", absl::StrCat(kind, ", ", tokenizer.vocab_size, " tokens"));
  if (tokenizer.bos) Line(out, "bos", TokenText(*tokenizer.bos));
  std::string eos;
  for (const Inspection::Token& token : tokenizer.eos) {
    absl::StrAppend(&eos, eos.empty() ? "" : ", ", TokenText(token));
  }
  Line(out, "eos", eos.empty() ? "no token: answers run to max_tokens" : eos);
}

void AppendTemplate(const Inspection& i, std::string* out) {
  std::string text = i.chat_templates.empty() ? "no" : "yes";
  if (i.chat_templates.size() > 1) {
    absl::StrAppend(&text, ": ", absl::StrJoin(i.chat_templates, ", "));
  }
  if (!i.chat_template_status.ok()) {
    absl::StrAppend(&text, "; CANNOT BE USED: ", i.chat_template_status.message());
  }
  Line(out, "chat template", text);
}

void AppendTensors(const Inspection& i, std::string* out) {
  absl::StrAppend(out, "\ntensors in the file\n");
  int64_t bytes = 0;
  for (const Inspection::TensorType& type : i.types) {
    absl::StrAppendFormat(out, "  %-14s%6d tensors %12s values %12s\n", type.name, type.tensors,
                          Count(type.values), FormatByteSize(type.bytes));
    bytes += type.bytes;
  }
  absl::StrAppendFormat(out, "  %-14s%6s         %12s        %12s\n", "all", "",
                        Count(i.parameters), FormatByteSize(bytes));
  absl::StrAppendFormat(out, "weights in memory: about %s as int8 (auto), %s as bf16, %s as f32\n",
                        FormatByteSize(i.parameters), FormatByteSize(2 * i.parameters),
                        FormatByteSize(4 * i.parameters));
}

void AppendKvCache(const Inspection& i, std::string* out) {
  const InspectOptions& asked = i.asked;
  const bool bounded = asked.eviction != EvictionPolicyKind::kFull;
  absl::StrAppendFormat(out, "\nsequences of %d tokens in a KV cache of %s\n", asked.length,
                        FormatByteSize(asked.kv_cache_bytes));
  const std::string policy = absl::StrCat(PolicyFlag(asked.eviction), " ", asked.budget_tokens);
  absl::StrAppendFormat(out, "  %-8s%14s%12s", "dtype", "bytes a token", "full");
  if (bounded) absl::StrAppendFormat(out, "%16s", policy);
  absl::StrAppend(out, "\n");
  for (const Inspection::KvDType& dtype : i.kv_dtypes) {
    absl::StrAppendFormat(out, "  %-8s%14d%12d", dtype.name, dtype.bytes_per_token,
                          dtype.full_sequences);
    if (bounded) absl::StrAppendFormat(out, "%16d", dtype.bounded_sequences);
    absl::StrAppend(out, "\n");
  }
  if (bounded) {
    absl::StrAppendFormat(
        out, "(%s: once their prompts are in; a prompt of full length needs its own room before)\n",
        policy);
  }
}

template <typename T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json ToJson(const absl::Status& status) {
  return status.ok() ? ordered_json(nullptr) : ordered_json(std::string(status.message()));
}

ordered_json ToJson(const Inspection::Token& token) {
  return {{"id", token.id}, {"text", token.text}};
}

ordered_json TokenizerJson(const Inspection::TokenizerInfo& tokenizer) {
  ordered_json eos = ordered_json::array();
  for (const Inspection::Token& token : tokenizer.eos) eos.push_back(ToJson(token));
  return {{"kind", tokenizer.kind},
          {"error", ToJson(tokenizer.status)},
          {"vocab_size", tokenizer.vocab_size},
          {"bos", tokenizer.bos ? ToJson(*tokenizer.bos) : ordered_json(nullptr)},
          {"eos", eos}};
}

ordered_json KvJson(const Inspection& i) {
  ordered_json dtypes = ordered_json::object();
  for (const Inspection::KvDType& dtype : i.kv_dtypes) {
    dtypes[dtype.name] = {{"bytes_per_token", dtype.bytes_per_token},
                          {"full_sequences", dtype.full_sequences},
                          {"bounded_sequences", dtype.bounded_sequences}};
  }
  return {{"kv_cache_bytes", i.asked.kv_cache_bytes},
          {"length", i.asked.length},
          {"eviction", PolicyFlag(i.asked.eviction)},
          {"budget_tokens", i.asked.budget_tokens},
          {"dtypes", dtypes}};
}

}  // namespace

std::string InspectionText(const Inspection& i) {
  const ModelConfig& config = i.config;
  std::string out;
  Line(&out, "format", i.format);
  Line(&out, "architecture", config.model_type);
  Line(&out, "parameters",
       i.parameters < 1'000'000 ? absl::StrCat(i.parameters)
                                : absl::StrFormat("%d (%s)", i.parameters, Count(i.parameters)));
  Line(&out, "layers", absl::StrCat(config.num_hidden_layers));
  Line(&out, "hidden size",
       absl::StrCat(config.hidden_size, ", feed-forward ", config.intermediate_size));
  Line(&out, "heads",
       absl::StrCat(config.num_attention_heads, " query, ", config.num_key_value_heads,
                    " key-value, of ", config.head_dim));
  if (const std::string window = WindowText(config); !window.empty()) {
    Line(&out, "sliding window", window);
  }
  Line(&out, "context", absl::StrCat(config.max_position_embeddings, " tokens"));
  Line(&out, "vocabulary",
       absl::StrCat(config.vocab_size, ", the head ",
                    config.tie_word_embeddings ? "tied" : "of its own"));
  AppendTokenizer(i, &out);
  AppendTemplate(i, &out);
  Line(&out, "sampling", SamplingText(i.generation));
  AppendTensors(i, &out);
  AppendKvCache(i, &out);
  return out;
}

std::string InspectionJson(const Inspection& i) {
  const ModelConfig& config = i.config;
  ordered_json types = ordered_json::object();
  for (const Inspection::TensorType& type : i.types) {
    types[type.name] = {{"tensors", type.tensors}, {"values", type.values}, {"bytes", type.bytes}};
  }
  const ordered_json json = {{"path", i.path},
                             {"format", i.format},
                             {"architecture", config.model_type},
                             {"parameters", i.parameters},
                             {"num_layers", config.num_hidden_layers},
                             {"hidden_size", config.hidden_size},
                             {"intermediate_size", config.intermediate_size},
                             {"num_heads", config.num_attention_heads},
                             {"num_kv_heads", config.num_key_value_heads},
                             {"head_dim", config.head_dim},
                             {"sliding_windows", config.sliding_windows},
                             {"context", config.max_position_embeddings},
                             {"vocab_size", config.vocab_size},
                             {"tie_word_embeddings", config.tie_word_embeddings},
                             {"tokenizer", TokenizerJson(i.tokenizer)},
                             {"chat_template",
                              {{"present", !i.chat_templates.empty()},
                               {"names", i.chat_templates},
                               {"error", ToJson(i.chat_template_status)}}},
                             {"generation",
                              {{"do_sample", OrNull(i.generation.do_sample)},
                               {"temperature", OrNull(i.generation.temperature)},
                               {"top_p", OrNull(i.generation.top_p)},
                               {"top_k", OrNull(i.generation.top_k)},
                               {"min_p", OrNull(i.generation.min_p)},
                               {"repetition_penalty", OrNull(i.generation.repetition_penalty)}}},
                             {"tensor_types", types},
                             {"kv_cache", KvJson(i)}};
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace hydrant::server
