#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/bench/arrivals.h"
#include "server/bench/bench_options.h"
#include "server/bench/client.h"
#include "server/bench/load_driver.h"
#include "server/bench/progress_line.h"
#include "server/bench/report.h"
#include "server/bench/workload.h"
#include "server/commands/commands.h"
#include "server/signals.h"

namespace hydrant::server {
namespace {

using bench::BenchOptions;
using bench::LoadDriver;

constexpr std::chrono::milliseconds kPoll(100);
constexpr int kSloFailed = 3;
constexpr int kInterrupted = 130;  // as shells say of a process that SIGINT ended

int Fail(const absl::Status& status, int exit_code = 1) {
  std::fprintf(stderr, "hydrant bench: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc;
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// Before the measurement, so that none is made in vain. An existing file stays as it is.
absl::Status CheckWritable(const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::app)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be written"));
}

absl::Status Write(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": cannot be written"));
}

// The result of `task`. A signal ends the process: nothing has been measured yet.
template <typename Task>
auto Interruptible(Signals& signals, Task task) {
  auto done = std::async(std::launch::async, std::move(task));
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signals.Wait(kPoll)) std::_Exit(kInterrupted);
  }
  return done.get();
}

// Runs `driver` to its end, or to a signal's; a second signal ends the process. Calls `each` in
// between. Tells whether there was a signal.
template <typename Each>
bool RunUntilSignal(LoadDriver& driver, Signals& signals,
                    std::vector<bench::RequestRecord>& records, Each each) {
  std::future<std::vector<bench::RequestRecord>> done =
      std::async(std::launch::async, [&] { return driver.Run(); });
  bool interrupted = false;
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    each();
    if (!signals.Wait(kPoll)) continue;
    if (interrupted) std::_Exit(kInterrupted);
    interrupted = true;
    driver.Stop();
  }
  records = done.get();
  return interrupted;
}

// Whether the measurement may begin.
bool WarmUp(const BenchOptions& options, bench::Client& client, const bench::RequestSource& source,
            Signals& signals) {
  if (options.warmup == 0) return true;
  const double level = options.load == bench::LoadKind::kConcurrency
                           ? options.from
                           : static_cast<double>(options.warmup);
  LoadDriver driver(client, source, bench::ClosedArrivals(bench::MakeSteps(level, level, 1, 0)),
                    {.requests = options.warmup, .timeout = options.timeout}, -1, -1);
  std::vector<bench::RequestRecord> records;
  return !RunUntilSignal(driver, signals, records, [] {});
}

void Measure(const BenchOptions& options, bench::Client& client, bench::Workload workload,
             Signals& signals, bench::Measurement& measurement) {
  const double cpu_before = CpuSeconds();
  measurement.started = UtcNow();
  LoadDriver driver(client, *workload.source, std::move(workload.arrivals), workload.limits);
  bench::ProgressLine progress(stderr, isatty(STDERR_FILENO) != 0, client.tokens());
  measurement.interrupted = RunUntilSignal(driver, signals, measurement.records, [&] {
    const auto load = client.GetLoad();
    const double now = driver.clock().Now();
    if (load) {
      measurement.samples.push_back({now, load->running(), load->waiting(),
                                     load->kv_blocks_total() - load->kv_blocks_free()});
    }
    progress.Update(now, driver.progress(), client.tokens());
  });
  progress.Finish();
  measurement.client_cpu_seconds = CpuSeconds() - cpu_before;
}

}  // namespace

int Bench(const Arguments& arguments) {
  auto parsed = bench::ParseBenchOptions(arguments);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const BenchOptions& options = std::get<BenchOptions>(parsed);
  for (const std::string& path : {options.json_path, options.plot_path}) {
    if (absl::Status status = CheckWritable(path); !status.ok()) return Fail(status);
  }
  auto files = bench::ReadFiles(options);
  if (!files.ok()) return Fail(files.status(), 2);

  Signals signals;
  auto made = bench::Client::Make(options.address, options.security);
  if (!made.ok()) return Fail(made.status(), 2);
  bench::Client& client = **made;
  auto model = Interruptible(signals, [&] { return client.WaitForModel(options.wait); });
  if (!model.ok()) return Fail(model.status());
  auto workload = Interruptible(
      signals, [&] { return bench::MakeWorkload(options, *std::move(files), *model, client); });
  if (!workload.ok()) return Fail(workload.status());
  if (!WarmUp(options, client, *workload->source, signals)) return kInterrupted;

  bench::Measurement measurement;
  measurement.address = options.address;
  measurement.command = options.command;
  measurement.load = workload->load;
  measurement.requests = workload->requests;
  measurement.model = *std::move(model);
  measurement.slo = options.slo;
  measurement.steps = workload->steps;
  measurement.sending_seconds = workload->limits.seconds;
  Measure(options, client, *std::move(workload), signals, measurement);

  const bench::Report report(std::move(measurement));
  std::fputs(bench::ReportText(report).c_str(), stdout);
  if (absl::Status status = Write(options.json_path, bench::ReportJson(report)); !status.ok()) {
    return Fail(status);
  }
  if (absl::Status status = Write(options.plot_path, bench::ReportSvg(report)); !status.ok()) {
    return Fail(status);
  }
  if (report.run.interrupted) return kInterrupted;
  if (!report.SloMet()) return kSloFailed;
  return report.total.counts.completed > 0 ? 0 : 1;
}

}  // namespace hydrant::server
