#include "server/explain/page.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/byte_size.h"
#include "server/explain/held_shares.h"
#include "server/explain/html_text.h"
#include "server/explain/page_sections.h"
#include "server/explain/page_style.h"

namespace hydrant::server {

using engine::EvictionPolicyKind;

std::string WithCommas(int64_t count) {
  std::string digits = absl::StrCat(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    digits.insert(at, ",");
  }
  return digits;
}

std::string Percent(double share) { return absl::StrFormat("%.1f&nbsp;%%", 100 * share); }

std::string_view PolicyName(EvictionPolicyKind policy) {
  switch (policy) {
    case EvictionPolicyKind::kFull:
      return "FULL";
    case EvictionPolicyKind::kWindow:
      return "WINDOW";
    case EvictionPolicyKind::kStreaming:
      return "STREAMING";
    case EvictionPolicyKind::kH2O:
      return "H2O";
  }
  return "";
}

int32_t FedTokens(const Explanation& e) {
  return static_cast<int32_t>(e.prompt.size() + e.answer.size()) - 1;
}

int32_t Pairs(const Explanation& e) { return e.held.layers * e.held.kv_heads; }

namespace {

void AppendFact(std::string_view name, std::string_view value, std::string_view note,
                std::string& out) {
  absl::StrAppend(&out, "<div><dt>", std::string(name), "</dt><dd>", std::string(value), "<small>",
                  std::string(note), "</small></dd></div>\n");
}

// "4 sink + 124 heavy + 128 recent": what the budget is made of.
std::string BudgetParts(const engine::AppliedEviction& eviction) {
  std::string parts;
  const auto add = [&](int32_t tokens, const char* kind) {
    if (tokens == 0) return;
    absl::StrAppend(&parts, parts.empty() ? "" : " + ", WithCommas(tokens), " ", kind);
  };
  add(eviction.sink_tokens, "sink");
  add(eviction.heavy_tokens, "heavy");
  add(eviction.recent_tokens, "recent");
  if (eviction.prefill_eviction == engine::PrefillEviction::kPerChunk) {
    absl::StrAppend(&parts, "; prompt evicted per chunk, an approximation");
  }
  return parts;
}

}  // namespace

void AppendFacts(const Explanation& e, std::string& out) {
  const bool full = e.eviction.policy == EvictionPolicyKind::kFull;
  const int32_t fed = FedTokens(e);
  out += "<dl class=\"facts\">\n";
  AppendFact("Policy", PolicyName(e.eviction.policy),
             full ? "everything is kept" : BudgetParts(e.eviction), out);
  AppendFact("Budget", full ? "none" : WithCommas(e.eviction.budget_tokens) + " tokens",
             absl::StrCat("of ", WithCommas(fed), " read, in each layer and KV head"), out);
  AppendFact("Evicted", WithCommas(e.usage.evicted_tokens) + " tokens",
             absl::StrCat(Percent(static_cast<double>(e.usage.evicted_tokens) / fed),
                          ", by each of ", WithCommas(Pairs(e)), " pairs of layer and head"),
             out);
  AppendFact("KV cache at the end", FormatByteSize(e.held.count * e.kv_bytes_per_token),
             absl::StrCat("in place of ", FormatByteSize(fed * e.kv_bytes_per_token), ", in ",
                          EscapeHtml(e.kv_dtype)),
             out);
  if (const auto& recall = e.usage.recall; recall && recall->steps > 0) {
    AppendFact("Recall", Percent(recall->mean),
               absl::StrCat("5th percentile ", Percent(recall->p5), ", over ",
                            WithCommas(recall->steps), recall->steps == 1 ? " step" : " steps"),
               out);
  }
  const auto difference = FirstDifference(e.answer, e.full_answer);
  AppendFact("Full cache’s answer", difference ? "differs" : "is the same",
             difference ? absl::StrCat("from token ", WithCommas(*difference + 1), " on")
                        : "token for token",
             out);
  out += "</dl>\n";
}

std::string MakePage(const Explanation& e) {
  const std::string model = EscapeHtml(e.model);
  const std::string policy(PolicyName(e.eviction.policy));
  std::string out = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>What ",
      policy, " kept: ", model, "</title>\n<style>", kPageStyle, "</style>\n</head>\n<body>\n");
  absl::StrAppend(&out, "<header>\n<h1>What the KV cache kept</h1>\n<p class=\"soft\">", model,
                  ", ", EscapeHtml(e.weight_dtype), " weights. A prompt of ",
                  WithCommas(static_cast<int64_t>(e.prompt.size())), " tokens and an answer of ",
                  WithCommas(static_cast<int64_t>(e.answer.size())), ", greedy.</p>\n");
  AppendFacts(e, out);
  out += "</header>\n<main>\n";
  AppendAnswers(e, out);
  AppendText(e, out);
  AppendLayers(e, out);
  absl::StrAppend(&out,
                  "</main>\n<footer class=\"soft small\"><p>Made by <code>hydrant explain</code>. ",
                  "What it shows is of this one prompt.</p></footer>\n", "</body>\n</html>\n");
  return out;
}

}  // namespace hydrant::server
