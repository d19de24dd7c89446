#include "server/bench/bench_options.h"

#include <charconv>
#include <cstdio>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/command_line.h"
#include "server/duration_text.h"
#include "server/request_flags.h"

namespace hydrant::server::bench {
namespace {

constexpr int32_t kMaxConcurrency = 10'000;
constexpr double kMinRate = 0.001;
constexpr double kMaxRate = 100'000;
constexpr int64_t kMaxRequests = 100'000'000;
constexpr int64_t kMaxWarmup = 10'000;
constexpr int32_t kMaxRampSteps = 1'000;
constexpr double kDefaultDuration = 30;
constexpr double kDefaultSloShare = 0.99;
constexpr double kMinSloShare = 0.001;

constexpr const char* kFooter =
    "Lengths and levels are one number, or A..B. A range of lengths is drawn from evenly; a range "
    "of concurrency or rate is a ramp from A to B in --ramp_steps steps over --duration, each "
    "reported by itself.\n\n"
    "TTFT: from when a request was due (its arrival, or when its place came free) to its first "
    "token. ITL: each gap between two messages with tokens. TPOT: a request's mean time a token "
    "after the first message. E2E: from when it was due to its end. Percentiles are measured "
    "values (nearest rank), of requests that completed. Tokens a second are over the time from "
    "the start to the end of the last request.\n\n"
    "SLO: a request is within it when it completed, its TTFT, TPOT and E2E are at most what is "
    "given, and no gap of it is longer than itl. Refused, cancelled and failed requests are not "
    "within it. Goodput is requests within it a second. It is met when at least --slo_share of "
    "the requests are within it.\n\n"
    "A trace has one JSON object a line: {\"arrival\": seconds, \"prompt_tokens\": n | \"text\": "
    "… | \"token_ids\": […], \"max_tokens\": n, \"prefix_id\": …, \"prefix_tokens\": n, "
    "\"eviction\": {…}}. The first prefix_tokens of prompts with one prefix_id are the same. "
    "Without --concurrency or --rate, requests are due at their arrival.\n\n"
    "Exit code: 0; 1 when the server cannot be reached, no request completed or a file cannot be "
    "written; 2 for a wrong command line or trace; 3 when the SLO was not met; 130 after Ctrl-C, "
    "which ends the measurement and reports it.";

// "A" or "A..B", numbers within [min, max].
template <typename T>
std::optional<std::pair<T, T>> ParseRange(std::string_view text, T min, T max) {
  const size_t dots = text.find("..");
  std::pair<T, T> range;
  const auto parse = [&](std::string_view part, T& number) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    return error == std::errc() && end == part.data() + part.size() && number >= min &&
           number <= max;
  };
  if (!parse(text.substr(0, dots), range.first)) return std::nullopt;
  range.second = range.first;
  if (dots != std::string_view::npos && !parse(text.substr(dots + 2), range.second)) {
    return std::nullopt;
  }
  return range;
}

// A flag of text that `parse` turns into an optional, and `set` takes; `expected` says what it is.
template <typename Parse, typename Set>
CLI::Option* AddParsed(CLI::App& app, const std::string& name, const std::string& type, Parse parse,
                       Set set, const std::string& expected, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name, [parse, set](const std::string& text) { set(*parse(text)); }, help)
      ->type_name(type)
      ->check(CLI::Validator(
          [parse, expected](std::string& text) {
            return parse(text) ? std::string() : absl::StrCat("'", text, "' is not ", expected);
          },
          ""));
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name, std::function<void(double)> set,
                         bool zero, const std::string& help) {
  return AddParsed(
      app, name, "TIME",
      [zero](const std::string& text) {
        auto seconds = ParseDuration(text);
        return seconds && (zero || *seconds > 0) ? seconds : std::nullopt;
      },
      set, absl::StrCat("a time", zero ? "" : " above 0", ", such as 30s, 500ms or 2m"), help);
}

// "A" or "A..B" within [min, max].
template <typename T, typename Set>
CLI::Option* AddRange(CLI::App& app, const std::string& name, T min, T max, Set set,
                      const std::string& help) {
  return AddParsed(
      app, name, "N|A..B",
      [min, max](const std::string& text) { return ParseRange<T>(text, min, max); },
      [set](std::pair<T, T> range) { set(range); },
      absl::StrCat("a number", std::is_integral_v<T> ? "" : " or fraction", " from ", min, " to ",
                   max, ", or a range A..B of them"),
      help);
}

void AddLengths(CLI::App& app, const std::string& name, int32_t max, Range& target,
                const std::string& help) {
  AddParsed(
      app, name, "N|A..B",
      [max](const std::string& text) -> std::optional<Range> {
        const auto range = ParseRange<int32_t>(text, 1, max);
        if (!range || range->first > range->second) return std::nullopt;
        return Range{range->first, range->second};
      },
      [&target](Range range) { target = range; },
      absl::StrCat("a number from 1 to ", max, ", or a range A..B of them with A up to B"), help)
      ->default_str(absl::StrCat(target.min));
}

void AddLoadFlags(CLI::App& app, BenchOptions& options) {
  const auto set = [&options](LoadKind kind) {
    return [&options, kind](std::pair<double, double> range) {
      options.load = kind;
      options.from = range.first;
      options.to = range.second;
    };
  };
  CLI::Option* concurrency =
      AddRange<int32_t>(app, "--concurrency", 1, kMaxConcurrency, set(LoadKind::kConcurrency),
                        "Requests at once: each is followed by the next (closed loop)")
          ->default_str("1");
  AddRange<double>(app, "--rate", kMinRate, kMaxRate, set(LoadKind::kRate),
                   "Requests a second, a Poisson process that waits for no answer (open loop)")
      ->excludes(concurrency);
  app.add_option("--ramp_steps", options.ramp_steps, "Steps of a ramp A..B")
      ->check(CLI::Range(2, kMaxRampSteps))
      ->capture_default_str();
  app.add_option("--requests", options.requests, "Most requests; default of a trace: its lines")
      ->check(CLI::Range(int64_t{1}, kMaxRequests))
      ->type_name("N");
  AddDuration(
      app, "--duration", [&](double seconds) { options.duration = seconds; }, false,
      "How long requests are sent; all that were sent are waited for")
      ->default_str("30s without --requests");
  app.add_option("--warmup", options.warmup,
                 "Requests before the measurement, as many at once as it begins with; not counted")
      ->check(CLI::Range(int64_t{0}, kMaxWarmup))
      ->capture_default_str();
  AddDuration(
      app, "--timeout", [&](double seconds) { options.timeout = seconds; }, false,
      "Deadline of each request, from when it is sent; default: none");
  AddDuration(
      app, "--wait", [&](double seconds) { options.wait = seconds; }, true,
      "How long to wait for the server to be there and have its model")
      ->default_str("0s");
}

void AddRequestFlags(CLI::App& app, BenchOptions& options) {
  AddLengths(app, "--prompt_tokens", kMaxPromptTokens, options.prompt_tokens,
             "Length of a prompt of random tokens, or of a piece of --prompts");
  AddLengths(app, "--max_tokens", kMaxOutputTokens, options.max_tokens, "Tokens to generate");
  CLI::Option* prompts =
      app.add_option("--prompts", options.text_path,
                     "A text file: its tokens are cut into prompts, in place of random ones")
          ->type_name("FILE");
  app.add_option("--trace", options.trace_path, "A JSON-lines file of requests; see below")
      ->type_name("FILE")
      ->excludes(prompts)
      ->excludes("--prompt_tokens");
  app.add_option("--seed", options.seed, "Of lengths, random tokens, arrivals and sampling")
      ->capture_default_str();
  v1::GenerateRequest& message = options.message;
  message.mutable_sampling()->set_temperature(0);
  message.mutable_stopping()->set_ignore_eos(true);
  AddSamplingFlags(app, *message.mutable_sampling());
  app.add_flag_function(
         "--ignore_eos",
         [&message](int64_t on) { message.mutable_stopping()->set_ignore_eos(on > 0); },
         "Goes on past the end of sequence; =false: answers end by themselves")
      ->default_str("true");
  AddEvictionFlags(app, *message.mutable_eviction());
}

struct ReportFlags {
  std::optional<Slo> slo;
  double slo_share = kDefaultSloShare;
};

void AddReportFlags(CLI::App& app, BenchOptions& options, ReportFlags& flags) {
  CLI::Option* slo =
      app.add_option_function<std::string>(
             "--slo", [&flags](const std::string& text) { flags.slo = *Slo::Parse(text); },
             "Limits, such as ttft=200ms,itl=50ms,tpot=20ms,e2e=5s; see below")
          ->type_name("LIMITS")
          ->check(CLI::Validator(
              [](std::string& text) {
                const auto parsed = Slo::Parse(text);
                return parsed.ok() ? std::string() : std::string(parsed.status().message());
              },
              ""));
  app.add_option("--slo_share", flags.slo_share, "Share of requests that must be within the SLO")
      ->check(CLI::Range(kMinSloShare, 1.0))
      ->needs(slo)
      ->capture_default_str();
  app.add_option("--json", options.json_path, "Writes the report as JSON")->type_name("FILE");
  app.add_option("--plot", options.plot_path,
                 "Writes a plot as SVG: latencies, and throughput over time")
      ->type_name("FILE");
}

// What no single flag can say. Empty: nothing is wrong.
std::string CheckTogether(const BenchOptions& options) {
  if (options.is_ramp() && !options.duration) {
    return "a ramp of --concurrency or --rate needs --duration";
  }
  return "";
}

}  // namespace

std::variant<BenchOptions, int> ParseBenchOptions(const std::vector<std::string>& args) {
  BenchOptions options;
  ReportFlags report;
  CLI::App app(
      "Drives a running server over gRPC and reports latencies and throughput. By default prompts "
      "are random tokens, answers greedy and of full length.",
      "hydrant bench");
  app.add_option("--server", options.address, "The server, such as localhost:50051")
      ->required()
      ->type_name("ADDRESS");
  AddClientSecurityFlags(app, options.security);
  AddLoadFlags(app, options);
  AddRequestFlags(app, options);
  AddReportFlags(app, options, report);
  app.footer(kFooter);
  if (const auto exit_code = ParseFlags(app, args)) return *exit_code;

  if (!options.trace_path.empty() && app.count("--concurrency") + app.count("--rate") == 0) {
    options.load = LoadKind::kTrace;
  }
  if (const std::string error = CheckTogether(options); !error.empty()) {
    std::fprintf(stderr, "hydrant bench: %s\n", error.c_str());
    return 2;
  }
  if (!options.requests && !options.duration && options.trace_path.empty()) {
    options.duration = kDefaultDuration;
  }
  if (report.slo) options.slo = SloTarget{*report.slo, report.slo_share};
  options.command = "hydrant bench";
  for (const std::string& arg : args) absl::StrAppend(&options.command, " ", arg);
  return options;
}

}  // namespace hydrant::server::bench
