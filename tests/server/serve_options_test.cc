#include "server/serve_options.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>

namespace hydrant::server {
namespace {

ServeOptions Parse(const std::vector<std::string>& args) {
  auto parsed = ParseServeOptions(args);
  EXPECT_TRUE(std::holds_alternative<ServeOptions>(parsed))
      << "exit code " << std::get<int>(parsed);
  return std::get<ServeOptions>(parsed);
}

// A line for each flag in effect.
std::string Effective(const std::vector<std::string>& args) {
  std::string text;
  for (const FlagSetting& flag : Parse(args).effective) {
    text += "--" + flag.name + "=" + flag.value + (flag.is_default ? "  (default)\n" : "\n");
  }
  return text;
}

// The exit code, and what went to stderr.
int Refused(const std::vector<std::string>& args, std::string& message) {
  testing::internal::CaptureStderr();
  auto parsed = ParseServeOptions(args);
  message = testing::internal::GetCapturedStderr();
  const int* code = std::get_if<int>(&parsed);
  return code == nullptr ? -1 : *code;
}

class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedEnvironment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(ServeOptionsTest, Defaults) {
  const ServeOptions options = Parse({"--model", "m.gguf"});
  EXPECT_EQ(options.engine.model_path, "m.gguf");
  EXPECT_EQ(options.listen, "0.0.0.0:50051");
  EXPECT_EQ(options.metrics_listen, "0.0.0.0:9400");
  EXPECT_EQ(options.engine.kv_cache_bytes, 0);
  EXPECT_EQ(options.engine.kv_dtype, kernels::KvDType::kBF16);
  EXPECT_FALSE(options.engine.weight_dtype);
  EXPECT_EQ(options.engine.eviction.policy, engine::EvictionPolicyKind::kH2O);
  EXPECT_EQ(options.engine.eviction.budget_tokens, 1024);
  EXPECT_FALSE(options.engine.eviction.budget_ratio);
  EXPECT_EQ(options.engine.audit_rate, 0);
  EXPECT_EQ(options.engine.audit_bytes, 256'000'000);
  EXPECT_FALSE(options.engine.queue.timeout);
  EXPECT_EQ(options.drain_timeout.count(), 30);
  EXPECT_EQ(options.step_timeout.count(), 120);
  EXPECT_EQ(options.log_format, LogFormat::kText);
  EXPECT_TRUE(options.generation.log_requests);
  EXPECT_FALSE(options.generation.log_prompts);
  EXPECT_EQ(options.metric_names, MetricNames::kHydrant);
}

TEST(ServeOptionsTest, EveryFlag) {
  const ServeOptions options = Parse({"--model=m",
                                      "--model_name=name",
                                      "--listen=127.0.0.1:1",
                                      "--metrics_listen=off",
                                      "--device=cpu",
                                      "--threads=3",
                                      "--weight_dtype=bf16",
                                      "--kv_cache_dtype=f32",
                                      "--kv_cache_bytes=100MB",
                                      "--max_num_seqs=7",
                                      "--max_batched_tokens=64",
                                      "--max_queue=5",
                                      "--max_model_len=2048",
                                      "--eviction=streaming",
                                      "--budget_ratio=0.25",
                                      "--min_budget_tokens=32",
                                      "--max_budget_tokens=4096",
                                      "--audit_rate=0.01",
                                      "--audit_bytes=1MB",
                                      "--max_queue_tokens=9000",
                                      "--queue_timeout=2.5",
                                      "--priority_aging=3",
                                      "--tenant_metadata_key=X-Tenant",
                                      "--tenant_max_requests=4",
                                      "--tenant_tokens_per_second=1000",
                                      "--tenant_burst_tokens=50000",
                                      "--drain_timeout=1.5",
                                      "--step_timeout=7",
                                      "--stream_buffer_bytes=1MB",
                                      "--log_format=json",
                                      "--log_requests=false",
                                      "--log_prompts",
                                      "--metrics_compat=vllm"});
  EXPECT_EQ(options.engine.model_name, "name");
  EXPECT_EQ(options.listen, "127.0.0.1:1");
  EXPECT_EQ(options.metrics_listen, "off");
  EXPECT_EQ(options.engine.device, "cpu");
  EXPECT_EQ(options.engine.threads, 3);
  EXPECT_EQ(options.engine.weight_dtype, kernels::WeightDType::kBF16);
  EXPECT_EQ(options.engine.kv_dtype, kernels::KvDType::kF32);
  EXPECT_EQ(options.engine.kv_cache_bytes, 100'000'000);
  EXPECT_EQ(options.engine.max_num_seqs, 7);
  EXPECT_EQ(options.engine.max_batched_tokens, 64);
  EXPECT_EQ(options.engine.queue.max_requests, 5);
  EXPECT_EQ(options.engine.max_model_len, 2048);
  EXPECT_EQ(options.engine.eviction.policy, engine::EvictionPolicyKind::kStreaming);
  EXPECT_FALSE(options.engine.eviction.budget_tokens);
  EXPECT_EQ(options.engine.eviction.budget_ratio, 0.25f);
  EXPECT_EQ(options.engine.eviction.min_budget_tokens, 32);
  EXPECT_EQ(options.engine.eviction.max_budget_tokens, 4096);
  EXPECT_EQ(options.engine.audit_rate, 0.01);
  EXPECT_EQ(options.engine.audit_bytes, 1'000'000);
  EXPECT_EQ(options.engine.queue.max_tokens, 9000);
  ASSERT_TRUE(options.engine.queue.timeout);
  EXPECT_EQ(options.engine.queue.timeout->count(), 2.5);
  EXPECT_EQ(options.engine.priority_aging, 3);
  EXPECT_EQ(options.generation.tenants.metadata_key, "x-tenant");
  EXPECT_EQ(options.generation.tenants.max_requests, 4);
  EXPECT_EQ(options.generation.tenants.tokens_per_second, 1000);
  EXPECT_EQ(options.generation.tenants.burst_tokens, 50000);
  EXPECT_EQ(options.drain_timeout.count(), 1.5);
  EXPECT_EQ(options.step_timeout.count(), 7);
  EXPECT_EQ(options.generation.stream_buffer_bytes, 1'000'000);
  EXPECT_EQ(options.log_format, LogFormat::kJson);
  EXPECT_FALSE(options.generation.log_requests);
  EXPECT_TRUE(options.generation.log_prompts);
  EXPECT_EQ(options.metric_names, MetricNames::kVllm);
}

TEST(ServeOptionsTest, EveryKvDType) {
  for (const kernels::KvDType dtype : kernels::kKvDTypes) {
    const std::string name(kernels::KvDTypeName(dtype));
    EXPECT_EQ(Parse({"--model=m", "--kv_cache_dtype=" + name}).engine.kv_dtype, dtype) << name;
  }
}

TEST(ServeOptionsTest, CommandLineThenEnvironmentThenFile) {
  const std::string path = testing::TempDir() + "/serve_options_test.conf";
  std::ofstream(path) << "max_queue = 1\nmax_num_seqs = 2\nthreads = 3\nkv_cache_bytes = 1GiB\n";
  const ScopedEnvironment queue("HYDRANT_MAX_QUEUE", "10");
  const ScopedEnvironment seqs("HYDRANT_MAX_NUM_SEQS", "20");
  const ScopedEnvironment model("HYDRANT_MODEL", "from_environment");
  const ServeOptions options = Parse({"--config", path, "--max_queue", "100"});
  EXPECT_EQ(options.engine.model_path, "from_environment");
  EXPECT_EQ(options.engine.queue.max_requests, 100);
  EXPECT_EQ(options.engine.max_num_seqs, 20);
  EXPECT_EQ(options.engine.threads, 3);
  EXPECT_EQ(options.engine.kv_cache_bytes, int64_t{1} << 30);
}

TEST(ServeOptionsTest, WhatWinsPutsOutWhatItExcludes) {
  const std::string path = testing::TempDir() + "/serve_options_test_excluded.conf";
  std::ofstream(path) << "budget_tokens = 8\n";
  {
    const ScopedEnvironment tokens("HYDRANT_BUDGET_TOKENS", "7");
    const auto eviction = Parse({"--model=m", "--budget_ratio=0.5"}).engine.eviction;
    EXPECT_EQ(eviction.budget_ratio, 0.5f);
    EXPECT_FALSE(eviction.budget_tokens);
  }
  const ScopedEnvironment ratio("HYDRANT_BUDGET_RATIO", "0.25");
  const auto eviction = Parse({"--model=m", "--config", path}).engine.eviction;
  EXPECT_EQ(eviction.budget_ratio, 0.25f);
  EXPECT_FALSE(eviction.budget_tokens);
}

TEST(ServeOptionsTest, AuditsWithoutMemoryAreAMistake) {
  std::string message;
  EXPECT_EQ(Refused({"--model=m", "--audit_rate=0.5", "--audit_bytes=0"}, message), 2);
  EXPECT_NE(message.find("--audit_rate"), std::string::npos) << message;
  EXPECT_NE(message.find("--audit_bytes is 0"), std::string::npos) << message;
  EXPECT_EQ(Parse({"--model=m", "--audit_bytes=0"}).engine.audit_bytes, 0);
}

TEST(ServeOptionsTest, AnEmptyVariableIsUnset) {
  const ScopedEnvironment threads("HYDRANT_THREADS", "");
  EXPECT_EQ(Parse({"--model=m"}).engine.threads, 0);
}

TEST(ServeOptionsTest, DescribesTheChosenEviction) {
  std::string text = Effective({"--model=m", "--eviction=FULL", "--budget_ratio=0.5"});
  EXPECT_NE(text.find("--eviction=full\n"), std::string::npos) << text;
  EXPECT_NE(text.find("--budget_ratio=0.5\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("--budget_tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("--max_budget_tokens=0  (default)\n"), std::string::npos) << text;
}

TEST(ServeOptionsTest, DescribesWhatIsInEffect) {
  const std::string text = Effective({"--model=m", "--max_queue=9", "--kv_cache_bytes=4GiB"});
  EXPECT_NE(text.find("--max_queue=9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("--kv_cache_bytes=4GiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("--budget_tokens=1024  (default)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("--eviction=h2o  (default)\n"), std::string::npos) << text;
}

TEST(ServeOptionsTest, ErrorsNameTheFlag) {
  const std::string path = testing::TempDir() + "/serve_options_test_bad.conf";
  std::ofstream(path) << "max_queues = 1\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{}, "--model"},
      {{"--model=m", "--kv_cache_bytes=lots"}, "--kv_cache_bytes"},
      {{"--model=m", "--max_queue=0"}, "--max_queue"},
      {{"--model=m", "--max_queue=x"}, "--max_queue"},
      {{"--model=m", "--max_num_seqs=99999999999"}, "--max_num_seqs"},
      {{"--model=m", "--eviction=lru"}, "--eviction"},
      {{"--model=m", "--budget_ratio=1.5"}, "--budget_ratio"},
      {{"--model=m", "--budget_ratio=0"}, "--budget_ratio"},
      {{"--model=m", "--budget_ratio=0.5", "--budget_tokens=3"}, "--budget_"},
      {{"--model=m", "--weight_dtype=int3"}, "--weight_dtype"},
      {{"--model=m", "--drain_timeout=-1"}, "--drain_timeout"},
      {{"--model=m", "--drain_timeout=1e300"}, "from 0 to 86400"},
      {{"--model=m", "--drain_timeout=inf"}, "--drain_timeout"},
      {{"--model=m", "--drain_timeout=nan"}, "--drain_timeout"},
      {{"--model=m", "--budget_ratio=nan"}, "--budget_ratio"},
      {{"--model=m", "--max_budget_tokens=-1"}, "--max_budget_tokens"},
      {{"--model=m", "--max_budget_tokens=512"}, "--budget_tokens: 1024 is above"},
      {{"--model=m", "--min_budget_tokens=2000"}, "--budget_tokens: 1024 is below"},
      {{"--model=m", "--min_budget_tokens=9", "--max_budget_tokens=8"}, "--min_budget_tokens: 9"},
      {{"--model=m", "--queue_timeout=-1"}, "--queue_timeout"},
      {{"--model=m", "--priority_aging=x"}, "--priority_aging"},
      {{"--model=m", "--tenant_metadata_key=not a key"}, "--tenant_metadata_key"},
      {{"--model=m", "--tenant_metadata_key=key-bin"}, "no -bin behind"},
      {{"--model=m", "--tenant_max_requests=3"}, "--tenant_metadata_key"},
      {{"--model=m", "--tenant_metadata_key=t", "--tenant_burst_tokens=3"},
       "--tenant_tokens_per_second"},
      {{"--model=m", "--stream_buffer_bytes=1KB"}, "1000 is below 64000"},
      {{"--model=m", "--log_format=xml"}, "--log_format"},
      {{"--model=m", "--no_such_flag"}, "--no_such_flag"},
      {{"--model=m", "--config", path}, "max_queues"},
      {{"--model=m", "--config", path + ".none"}, ".none"},
  };
  for (const auto& [args, name] : table) {
    std::string message;
    EXPECT_EQ(Refused(args, message), 2) << name;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(ServeOptionsTest, EveryFlagInEffectIsReadFromEnvironmentAndFile) {
  const std::string path = testing::TempDir() + "/serve_options_test_every.conf";
  for (const FlagSetting& flag : Parse({"--model=m", "--tenant_metadata_key=t"}).effective) {
    if (flag.name == "model" || flag.name == "budget_tokens") continue;
    std::string variable = "HYDRANT_" + flag.name;
    for (char& c : variable) c = static_cast<char>(std::toupper(c));
    const std::string value = flag.name == "kv_cache_bytes" ? "1GB" : flag.value;
    const auto is_set = [&](const ServeOptions& options) {
      for (const FlagSetting& other : options.effective) {
        if (other.name == flag.name) return !other.is_default && other.value == value;
      }
      return false;
    };
    const std::vector<std::string> args = {"--model=m", "--tenant_metadata_key=t"};
    {
      const ScopedEnvironment environment(variable.c_str(), value.c_str());
      EXPECT_TRUE(is_set(Parse(args))) << variable << "=" << value;
    }
    if (flag.name == "tenant_metadata_key") continue;  // given
    std::ofstream(path) << flag.name << " = " << value << "\n";
    EXPECT_TRUE(is_set(Parse({args[0], args[1], "--config", path}))) << flag.name;
  }
}

TEST(ServeOptionsTest, HelpIsNoError) {
  testing::internal::CaptureStdout();
  auto parsed = ParseServeOptions({"--help"});
  EXPECT_NE(testing::internal::GetCapturedStdout().find("--kv_cache_bytes"), std::string::npos);
  ASSERT_TRUE(std::holds_alternative<int>(parsed));
  EXPECT_EQ(std::get<int>(parsed), 0);
}

}  // namespace
}  // namespace hydrant::server
