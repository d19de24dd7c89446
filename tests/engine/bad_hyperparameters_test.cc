// Every hyperparameter of every family, left out, of a wrong type, and of absurd size: the model
// loads, or the message names the key, one that it disagrees with, or the tensor whose shape it no
// longer fits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/models/model.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/engine/gguf_conversion.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine {
namespace {

using nlohmann::json;
using weights::Checkpoint;

const std::string kGolden = HYDRANT_TEST_DATA "/golden/";

absl::Status Load(const std::string& path) {
  auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  const auto backend = kernels::CreateReferenceBackend();
  Model::Options options;
  options.weight_dtype = kernels::WeightDType::kBF16;
  options.max_rows = 1;
  options.max_slots = 16;
  return Model::Load(**checkpoint, *backend, options, [](double) {}).status();
}

// Whether it was refused, and then rightly: with one of `names` in the message.
bool ExpectLoadsOrNames(const std::string& path, std::vector<std::string> names) {
  const absl::Status status = Load(path);
  if (status.ok()) return false;
  names.push_back("tensor '");
  const std::string message(status.message());
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return message.find(name) != std::string::npos;
  })) << message;
  return true;
}

// What disagrees with a key that is too small.
std::string BoundBy(const std::string& key) {
  if (key == "vocab_size") return "eos_token_id";
  if (key == "hidden_size") return "word_embed_proj_dim";
  return key;
}

class ConfigJsonTest : public testing::TestWithParam<const char*> {};

TEST_P(ConfigJsonTest, LoadsOrNamesTheKey) {
  const std::string golden = kGolden + GetParam();
  TempDir dir;
  for (const auto& entry : std::filesystem::directory_iterator(golden)) {
    const std::string name = entry.path().filename();
    if (name.find("safetensors") != std::string::npos) dir.Write(name, ReadAll(entry.path()));
  }
  const json config = json::parse(ReadAll(golden + "/config.json"));
  const json flat = config.flatten();  // "/rope_parameters/rope_theta": 10000.0
  std::vector<json::json_pointer> places;
  for (const auto& [path, value] : flat.items()) places.emplace_back(path);
  int refused = 0;
  for (json::json_pointer place : places) {
    if (config.at(place.parent_pointer()).is_array()) place = place.parent_pointer();
    const std::string key = place.back();
    SCOPED_TRACE(place.to_string());
    const auto check = [&](const json& changed) {
      SCOPED_TRACE(changed.dump());
      dir.Write("config.json", changed.dump());
      refused += ExpectLoadsOrNames(dir.path(), {key, BoundBy(key)});
    };
    json changed = config;
    changed.at(place.parent_pointer()).erase(key);
    check(changed);
    for (const json& value : {json(), json("x"), json(true), json(0), json(1), json(-1), json(3),
                              json(0.5), json(1e300), json(std::numeric_limits<int64_t>::max()),
                              json(std::numeric_limits<uint64_t>::max()), json::array(), json({7}),
                              json::object(), json({{"x", 1}})}) {
      changed = config;
      changed[place] = value;
      check(changed);
    }
  }
  EXPECT_GT(refused, 50);
}

INSTANTIATE_TEST_SUITE_P(Families, ConfigJsonTest,
                         testing::Values("gemma3", "gpt-neox", "llama-mqa-bias", "llama3-rope",
                                         "mistral", "opt", "opt-350m-style", "qwen2", "qwen3"));

class GgufKeysTest : public testing::TestWithParam<Family> {};

TEST_P(GgufKeysTest, LoadsOrNamesTheKey) {
  const Family& family = GetParam();
  const auto directory = Checkpoint::Open(kGolden + family.checkpoint);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const TempDir dir;
  const auto whole = Checkpoint::Open(dir.Write("a.gguf", Convert(family, **directory).Build()));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string p = family.architecture + ".";
  int refused = 0;
  for (const std::string& key :
       {std::string("general.architecture"), p + "block_count", p + "context_length",
        p + "embedding_length", p + "feed_forward_length", p + "attention.head_count",
        p + "attention.head_count_kv", p + "attention.layer_norm_epsilon",
        p + "attention.layer_norm_rms_epsilon", p + "attention.key_length",
        p + "attention.value_length", p + "attention.sliding_window",
        p + "attention.sliding_window_pattern", p + "rope.dimension_count", p + "rope.freq_base",
        p + "rope.scaling.type", p + "rope.scaling.factor", p + "use_parallel_residual"}) {
    using Value = std::optional<std::pair<uint32_t, std::string>>;
    for (const Value& value :
         {Value(), Value({4, Bytes<uint32_t>(0)}), Value({4, Bytes<uint32_t>(3)}),
          Value({4, Bytes<uint32_t>(0xffffffff)}), Value({5, Bytes<int32_t>(-1)}),
          Value({10, Bytes<uint64_t>(~uint64_t{0})}), Value({6, Bytes(std::nanf(""))}),
          Value({6, Bytes(-1e30f)}), Value({7, Bytes<uint8_t>(1)}),
          Value({8, weights::GgufString("x")}),
          Value({9, Bytes<uint32_t>(4) + Bytes<uint64_t>(1) + Bytes<uint32_t>(7)})}) {
      SCOPED_TRACE(key + (value ? ": type " + std::to_string(value->first) : " left out"));
      GgufWriter writer;
      writer.replacement = {key, value};
      const std::string file = Convert(family, **directory, writer).Build();
      refused += ExpectLoadsOrNames(dir.Write("model.gguf", file), {key, p});
    }
  }
  EXPECT_GT(refused, 50);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufKeysTest, testing::ValuesIn(kFamilies),
                         [](const auto& info) {
                           std::string name = info.param.checkpoint;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace hydrant::engine
