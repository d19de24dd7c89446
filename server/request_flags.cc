#include "server/request_flags.h"

#include "server/command_line.h"

namespace hydrant::server {

void AddSamplingFlags(CLI::App& app, v1::SamplingParams& sampling) {
  AddField<float>(
      app, "--temperature", [&](float v) { sampling.set_temperature(v); }, "0 is greedy");
  AddField<float>(
      app, "--top_p", [&](float v) { sampling.set_top_p(v); }, "Nucleus, in (0, 1]");
  AddField<int32_t>(
      app, "--top_k", [&](int32_t v) { sampling.set_top_k(v); }, "The k most likely; 0: all");
  AddField<float>(
      app, "--min_p", [&](float v) { sampling.set_min_p(v); }, "Share of the best's probability");
  AddField<float>(
      app, "--repetition_penalty", [&](float v) { sampling.set_repetition_penalty(v); }, "1: none");
  AddField<float>(
      app, "--presence_penalty", [&](float v) { sampling.set_presence_penalty(v); }, "0: none");
  AddField<float>(
      app, "--frequency_penalty", [&](float v) { sampling.set_frequency_penalty(v); }, "0: none");
}

void AddEvictionFlags(CLI::App& app, v1::EvictionParams& eviction) {
  AddEvictionPolicy(
      app,
      [&](engine::EvictionPolicyKind policy) {
        // The kinds are in the API's order, which starts with "unspecified".
        eviction.set_policy(static_cast<v1::EvictionParams::Policy>(static_cast<int>(policy) + 1));
      },
      "full, window, streaming or h2o");
  CLI::Option* tokens = AddField<int32_t>(
      app, "--budget_tokens", [&](int32_t v) { eviction.set_budget_tokens(v); },
      "Tokens the KV cache keeps");
  AddField<float>(
      app, "--budget_ratio", [&](float v) { eviction.set_budget_ratio(v); },
      "The same as a share of prompt + max_tokens")
      ->excludes(tokens);
  AddField<int32_t>(
      app, "--sink_tokens", [&](int32_t v) { eviction.set_sink_tokens(v); },
      "First tokens that are always kept");
  AddField<int32_t>(
      app, "--recent_tokens", [&](int32_t v) { eviction.set_recent_tokens(v); },
      "Newest tokens that are always kept");
  app.add_flag_callback(
      "--audit", [&] { eviction.set_audit(true); }, "Measures what the eviction loses");
}

}  // namespace hydrant::server
