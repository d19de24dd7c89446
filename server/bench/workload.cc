#include "server/bench/workload.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tokenizer/utf8.h"
#include "engine/weights/json_file.h"

namespace hydrant::server::bench {
namespace {

constexpr uint64_t kMaxTextBytes = 64 << 20;
constexpr uint64_t kMaxTraceBytes = uint64_t{1} << 30;
constexpr size_t kTokenizeBytes = 1 << 20;  // a call

std::string InWords(const Range& range) {
  return range.min == range.max ? absl::StrCat(range.min)
                                : absl::StrCat(range.min, " to ", range.max);
}

// The tokens of `text`, up to about `enough`. It is cut before a space for each call, where the
// tokens of the whole would most likely end, too.
absl::StatusOr<std::vector<uint32_t>> TokenizeText(std::string_view text, size_t enough,
                                                   Client& client) {
  std::vector<uint32_t> tokens;
  while (!text.empty() && tokens.size() < enough) {
    size_t length = std::min(text.size(), kTokenizeBytes);
    if (length < text.size()) {
      const size_t space = text.rfind(' ', length);
      if (space != std::string_view::npos && space > 0) length = space;
      while ((text[length] & 0xC0) == 0x80) --length;  // not inside a character
    }
    auto part = client.Tokenize(std::string(text.substr(0, length)));
    if (!part.ok()) return part.status();
    tokens.insert(tokens.end(), part->begin(), part->end());
    text.remove_prefix(length);
  }
  return tokens;
}

// How many requests there will be at most, if that is known.
std::optional<int64_t> MostRequests(const BenchOptions& options, const InputFiles& files) {
  if (options.requests || options.duration || files.trace.empty()) return options.requests;
  return static_cast<int64_t>(files.trace.size());
}

absl::StatusOr<std::unique_ptr<RequestSource>> MakeSource(const BenchOptions& options,
                                                          InputFiles files,
                                                          const v1::GetModelInfoResponse& model,
                                                          Client& client) {
  RequestTemplate common{options.message, options.max_tokens, options.seed};
  if (!options.text_path.empty()) {
    const size_t enough = options.requests
                              ? *options.requests * static_cast<size_t>(options.prompt_tokens.max)
                              : std::numeric_limits<size_t>::max();
    auto tokens = TokenizeText(files.text, enough, client);
    if (!tokens.ok()) return tokens.status();
    auto source = CutPrompts(std::move(common), *std::move(tokens), options.prompt_tokens);
    if (source.ok()) return source;
    return absl::InvalidArgumentError(
        absl::StrCat(options.text_path, ": ", source.status().message()));
  }
  auto vocabulary = Vocabulary::Make(model.vocab_size(),
                                     {model.eos_token_ids().begin(), model.eos_token_ids().end()});
  if (!vocabulary.ok()) return vocabulary.status();
  if (!files.trace.empty()) {
    return TracePrompts(std::move(common), *std::move(vocabulary), std::move(files.trace));
  }
  return RandomPrompts(std::move(common), *std::move(vocabulary), options.prompt_tokens);
}

std::string RequestsInWords(const BenchOptions& options) {
  if (!options.trace_path.empty()) return absl::StrCat("as ", options.trace_path, " says");
  return absl::StrCat(InWords(options.prompt_tokens),
                      options.text_path.empty()
                          ? std::string(" random prompt tokens")
                          : absl::StrCat(" prompt tokens of ", options.text_path),
                      ", ", InWords(options.max_tokens), " generated");
}

std::string LoadInWords(const BenchOptions& options, const std::optional<int64_t>& requests) {
  std::string text;
  if (options.load == LoadKind::kTrace) {
    text = "open loop, arrivals of the trace";
  } else {
    const std::string level = options.is_ramp() ? absl::StrCat(options.from, " to ", options.to,
                                                               " in ", options.ramp_steps, " steps")
                                                : absl::StrCat(options.from);
    text = options.load == LoadKind::kRate
               ? absl::StrCat("open loop, Poisson, ", level, " requests/s")
               : absl::StrCat("closed loop, ", level, " at once");
  }
  if (requests) absl::StrAppend(&text, ", ", *requests, " requests");
  if (options.duration) absl::StrAppend(&text, ", ", *options.duration, " s of sending");
  return text;
}

// Puts the requests in the order of their arrivals, which all must have.
absl::Status SortByArrival(const std::string& path, std::vector<TraceRequest>& trace) {
  for (const TraceRequest& request : trace) {
    if (request.arrival) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ":", request.line, ": arrival is missing; without it, give --concurrency or --rate"));
  }
  std::stable_sort(trace.begin(), trace.end(), [](const TraceRequest& a, const TraceRequest& b) {
    return *a.arrival < *b.arrival;
  });
  return absl::OkStatus();
}

std::unique_ptr<Arrivals> MakeArrivals(const BenchOptions& options,
                                       const std::vector<LoadStep>& steps,
                                       const std::vector<TraceRequest>& trace) {
  if (options.load == LoadKind::kConcurrency) return ClosedArrivals(steps);
  if (options.load == LoadKind::kRate) return PoissonArrivals(steps, options.seed);
  std::vector<double> times;
  for (const TraceRequest& request : trace) times.push_back(*request.arrival);
  return GivenArrivals(std::move(times));
}

}  // namespace

absl::StatusOr<InputFiles> ReadFiles(const BenchOptions& options) {
  InputFiles files;
  if (!options.text_path.empty()) {
    auto text = engine::weights::ReadText(options.text_path, kMaxTextBytes);
    if (!text.ok()) return text.status();
    if (!engine::IsValidUtf8(*text)) {
      return absl::InvalidArgumentError(absl::StrCat(options.text_path, ": not UTF-8"));
    }
    files.text = *std::move(text);
  }
  if (options.trace_path.empty()) return files;
  const auto text = engine::weights::ReadText(options.trace_path, kMaxTraceBytes);
  if (!text.ok()) return text.status();
  auto trace = ParseTrace(options.trace_path, *text);
  if (!trace.ok()) return trace.status();
  files.trace = *std::move(trace);
  if (options.load == LoadKind::kTrace) {
    absl::Status status = SortByArrival(options.trace_path, files.trace);
    if (!status.ok()) return status;
  }
  return files;
}

absl::StatusOr<Workload> MakeWorkload(const BenchOptions& options, InputFiles files,
                                      const v1::GetModelInfoResponse& model, Client& client) {
  Workload workload;
  if (options.load != LoadKind::kTrace) {
    workload.steps = MakeSteps(options.from, options.to, options.is_ramp() ? options.ramp_steps : 1,
                               options.duration.value_or(0));
  }
  const std::optional<int64_t> requests = MostRequests(options, files);
  workload.limits.requests = requests.value_or(workload.limits.requests);
  workload.limits.seconds = options.duration.value_or(workload.limits.seconds);
  workload.limits.timeout = options.timeout;
  workload.load = LoadInWords(options, requests);
  workload.requests = RequestsInWords(options);
  workload.arrivals = MakeArrivals(options, workload.steps, files.trace);
  auto source = MakeSource(options, std::move(files), model, client);
  if (!source.ok()) return source.status();
  workload.source = *std::move(source);
  return workload;
}

}  // namespace hydrant::server::bench
