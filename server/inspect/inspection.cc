#include "server/inspect/inspection.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/chat/chat.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/backend.h"
#include "kernels/batch.h"

namespace hydrant::server {
namespace {

using engine::ModelConfig;
using engine::weights::Checkpoint;
using kernels::kBlockSlots;

std::vector<Inspection::TensorType> CountTypes(const Checkpoint& checkpoint) {
  std::map<std::string, Inspection::TensorType> by_name;
  for (const engine::weights::TensorView& tensor : checkpoint.Tensors()) {
    Inspection::TensorType& type = by_name[tensor.type];
    type.name = tensor.type;
    ++type.tensors;
    type.values += tensor.rows * tensor.cols;
    type.bytes += tensor.bytes;
  }
  std::vector<Inspection::TensorType> types;
  for (auto& [name, type] : by_name) types.push_back(std::move(type));
  return types;
}

Inspection::TokenizerInfo InspectTokenizer(const Checkpoint& checkpoint) {
  Inspection::TokenizerInfo info;
  auto kind = checkpoint.TokenizerKind();
  if (kind.ok()) info.kind = *std::move(kind);
  const auto tokenizer = checkpoint.LoadTokenizer();
  info.status = tokenizer.status();
  if (!tokenizer.ok()) return info;
  info.vocab_size = (*tokenizer)->vocab_size();
  const auto token = [&](int32_t id) { return Inspection::Token{id, (*tokenizer)->TokenText(id)}; };
  if ((*tokenizer)->bos_id()) info.bos = token(*(*tokenizer)->bos_id());
  for (const int32_t id :
       engine::weights::EosTokenIds(checkpoint.generation_config(), **tokenizer)) {
    info.eos.push_back(token(id));
  }
  return info;
}

// How many sequences of so many held tokens fit, when each holds whole blocks.
int64_t Fitting(int64_t kv_cache_bytes, int64_t block_bytes, int64_t tokens) {
  const int64_t blocks = kv_cache_bytes / block_bytes;
  return blocks / ((tokens + kBlockSlots - 1) / kBlockSlots);
}

absl::StatusOr<std::vector<Inspection::KvDType>> InspectKvCache(const ModelConfig& config,
                                                                const InspectOptions& asked) {
  const auto backend = kernels::CreateCpuBackend({.threads = 1});
  if (!backend.ok()) return backend.status();
  // A bounded sequence holds one token more than its budget while it decodes.
  const int64_t bounded = asked.eviction == engine::EvictionPolicyKind::kFull
                              ? asked.length
                              : std::min<int64_t>(asked.length, int64_t{asked.budget_tokens} + 1);
  std::vector<Inspection::KvDType> dtypes;
  for (const kernels::KvDType dtype : kernels::kKvDTypes) {
    kernels::KvGeometry geometry;
    geometry.layers = config.num_hidden_layers;
    geometry.kv_heads = config.num_key_value_heads;
    geometry.head_dim = config.head_dim;
    geometry.dtype = dtype;
    geometry.windows = config.sliding_windows;
    const auto block_bytes = static_cast<int64_t>((*backend)->KvBlockBytes(geometry));
    dtypes.push_back({std::string(kernels::KvDTypeName(dtype)), block_bytes / kBlockSlots,
                      Fitting(asked.kv_cache_bytes, block_bytes, asked.length),
                      Fitting(asked.kv_cache_bytes, block_bytes, bounded)});
  }
  return dtypes;
}

}  // namespace

absl::StatusOr<Inspection> Inspect(const InspectOptions& options) {
  const auto checkpoint = Checkpoint::Open(options.model);
  if (!checkpoint.ok()) return checkpoint.status();
  Inspection result;
  result.path = options.model;
  result.format = std::string((*checkpoint)->format());
  result.config = (*checkpoint)->config();
  result.parameters = (*checkpoint)->num_parameters();
  result.types = CountTypes(**checkpoint);
  result.tokenizer = InspectTokenizer(**checkpoint);
  for (const auto& [name, source] : (*checkpoint)->chat_templates()) {
    result.chat_templates.push_back(name);
  }
  if (const std::string* source = (*checkpoint)->chat_template()) {
    result.chat_template_status = engine::chat::Template::Parse(*source).status();
  }
  result.generation = (*checkpoint)->generation_config();
  result.asked = options;
  const int32_t context = result.config.max_position_embeddings;
  if (options.length > context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--length: ", options.length, " is more than the model's context of ", context, " tokens"));
  }
  if (options.length == 0) result.asked.length = context;
  auto kv_dtypes = InspectKvCache(result.config, result.asked);
  if (!kv_dtypes.ok()) return kv_dtypes.status();
  result.kv_dtypes = *std::move(kv_dtypes);
  return result;
}

}  // namespace hydrant::server
