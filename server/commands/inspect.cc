#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"
#include "kernels/batch.h"
#include "server/byte_size.h"
#include "server/command_line.h"
#include "server/commands/commands.h"

namespace hydrant::server {
namespace {

using engine::ModelConfig;
using engine::weights::Checkpoint;
using kernels::kBlockSlots;

struct InspectOptions {
  std::string model;
  int64_t kv_cache_bytes = int64_t{1} << 30;
  int32_t length = 0;
  int32_t budget_tokens = 1024;
};

const char* YesNo(bool value) { return value ? "yes" : "no"; }

// Millions, unless that would round much away.
std::string FormatCount(int64_t count) {
  if (count < 1'000'000) return absl::StrCat(count);
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f M", static_cast<double>(count) / 1e6);
  return text;
}

void PrintModel(const Checkpoint& checkpoint, const engine::Tokenizer& tokenizer) {
  const ModelConfig& config = checkpoint.config();
  std::printf("format          %s\n", std::string(checkpoint.format()).c_str());
  std::printf("architecture    %s\n", config.model_type.c_str());
  std::printf("parameters      %lld (%.1f M)\n",
              static_cast<long long>(checkpoint.num_parameters()),
              static_cast<double>(checkpoint.num_parameters()) / 1e6);
  std::printf("layers          %d\n", config.num_hidden_layers);
  std::printf("hidden size     %d, feed-forward %d\n", config.hidden_size,
              config.intermediate_size);
  std::printf("heads           %d query, %d key-value, of %d\n", config.num_attention_heads,
              config.num_key_value_heads, config.head_dim);
  std::printf("context         %d tokens\n", config.max_position_embeddings);
  std::printf("vocabulary      %d (tokenizer: %d)\n", config.vocab_size, tokenizer.vocab_size());
  std::printf("tied head       %s\n", YesNo(config.tie_word_embeddings));
  std::printf("chat template   %s\n", YesNo(checkpoint.chat_template().has_value()));
}

void PrintTensors(const Checkpoint& checkpoint) {
  struct Total {
    int64_t tensors = 0;
    int64_t elements = 0;
  };
  std::map<std::string, Total> by_type;
  for (const engine::weights::TensorView& tensor : checkpoint.Tensors()) {
    Total& total = by_type[tensor.type];
    ++total.tensors;
    total.elements += tensor.rows * tensor.cols;
  }
  std::printf("tensors\n");
  for (const auto& [type, total] : by_type) {
    std::printf("  %-14s%lld tensors, %s numbers\n", type.c_str(),
                static_cast<long long>(total.tensors), FormatCount(total.elements).c_str());
  }
}

// How many sequences of so many held tokens fit, when each holds whole blocks.
int64_t Fitting(int64_t kv_cache_bytes, int64_t block_bytes, int64_t tokens) {
  const int64_t blocks = kv_cache_bytes / block_bytes;
  return blocks / ((tokens + kBlockSlots - 1) / kBlockSlots);
}

absl::Status PrintKvCache(const ModelConfig& config, const InspectOptions& options) {
  auto backend = kernels::CreateCpuBackend({.threads = 1});
  if (!backend.ok()) return backend.status();
  const int32_t length = options.length > 0 ? options.length : config.max_position_embeddings;
  // A bounded sequence holds one token more than its budget while it decodes.
  const int64_t bounded = std::min<int64_t>(length, int64_t{options.budget_tokens} + 1);
  std::printf("KV cache of %s: sequences of %d tokens that fit\n",
              FormatByteSize(options.kv_cache_bytes).c_str(), length);
  for (const kernels::KvDType dtype : kernels::kKvDTypes) {
    kernels::KvGeometry geometry;
    geometry.layers = config.num_hidden_layers;
    geometry.kv_heads = config.num_key_value_heads;
    geometry.head_dim = config.head_dim;
    geometry.dtype = dtype;
    geometry.windows = config.sliding_windows;
    const auto block_bytes = static_cast<int64_t>((*backend)->KvBlockBytes(geometry));
    std::printf("  %-5s %8lld bytes a token   FULL %lld   H2O of %d tokens %lld\n",
                std::string(kernels::KvDTypeName(dtype)).c_str(),
                static_cast<long long>(block_bytes / kBlockSlots),
                static_cast<long long>(Fitting(options.kv_cache_bytes, block_bytes, length)),
                options.budget_tokens,
                static_cast<long long>(Fitting(options.kv_cache_bytes, block_bytes, bounded)));
  }
  return absl::OkStatus();
}

absl::Status Run(const InspectOptions& options) {
  auto checkpoint = Checkpoint::Open(options.model);
  if (!checkpoint.ok()) return checkpoint.status();
  auto tokenizer = (*checkpoint)->LoadTokenizer();
  if (!tokenizer.ok()) return tokenizer.status();
  const int32_t context = (*checkpoint)->config().max_position_embeddings;
  if (options.length > context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--length: ", options.length, " is more than the model's context of ", context, " tokens"));
  }
  PrintModel(**checkpoint, **tokenizer);
  PrintTensors(**checkpoint);
  return PrintKvCache((*checkpoint)->config(), options);
}

}  // namespace

int Inspect(const Arguments& arguments) {
  InspectOptions options;
  CLI::App app("Tells what a checkpoint is and how many sequences fit in a KV cache.",
               "hydrant inspect");
  app.add_option("--model,model", options.model, "A .gguf file, or a Hugging Face directory")
      ->required()
      ->type_name("PATH");
  AddByteSize(app, "--kv_cache_bytes", options.kv_cache_bytes, "1GiB",
              "Memory of the KV cache, such as 100MB or 4GiB");
  app.add_option("--length", options.length,
                 "Tokens of a sequence, prompt and answer; 0: the whole context")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--budget_tokens", options.budget_tokens, "Budget of a sequence under H2O")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (const auto exit_code = ParseFlags(app, arguments)) return *exit_code;
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "hydrant inspect: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace hydrant::server
