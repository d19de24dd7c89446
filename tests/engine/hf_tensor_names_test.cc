// Directories that hold the same tensors under other names are the same model.

#include "engine/weights/hf_tensor_names.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/checkpoint_logits.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine::weights {
namespace {

using nlohmann::json;
using Rename = std::function<std::string(const std::string&)>;

// What begins with `from` begins with `to`.
Rename Prefix(const std::string& from, const std::string& to) {
  return [=](const std::string& name) {
    return name.starts_with(from) ? to + name.substr(from.size()) : name;
  };
}

std::string Renamed(const std::string& file, const Rename& rename, const std::string& extra) {
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof(length));
  const json original = json::parse(file.substr(8, length));
  json header;
  for (const auto& [name, value] : original.items()) {
    header[name == "__metadata__" ? name : rename(name)] = value;
  }
  if (!extra.empty()) {
    header[extra] = {{"dtype", "F32"}, {"shape", {0, 3}}, {"data_offsets", {0, 0}}};
  }
  const std::string data = file.substr(8 + length), text = header.dump();
  length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

void ExpectSame(const std::string& name, const Rename& rename, bool nested,
                const std::string& extra = "") {
  SCOPED_TRACE(name + " " + rename("model.norm.weight"));
  const std::string golden = std::string(HYDRANT_TEST_DATA "/golden/") + name;
  const auto original = Checkpoint::Open(golden);
  ASSERT_TRUE(original.ok()) << original.status();
  json config = json::parse(ReadAll(golden + "/config.json"));
  if (nested) config = {{"model_type", "gemma3"}, {"text_config", config}};
  const TempDir dir;
  dir.Write("config.json", config.dump());
  dir.Write("model.safetensors", Renamed(ReadAll(golden + "/model.safetensors"), rename, extra));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->num_parameters(), (*original)->num_parameters());
  EXPECT_EQ(Logits(**checkpoint), Logits(**original));
}

TEST(HfTensorNamesTest, TheTextOfAModelOfTextAndImages) {
  ExpectSame("gemma3", Prefix("model.", "language_model.model."), true, "vision_tower.x.weight");
  ExpectSame("gemma3", Prefix("model.", "model.language_model."), true, "model.vision_tower.x");
}

TEST(HfTensorNamesTest, ABaseModelSavedWithoutItsHead) {
  ExpectSame("llama-gqa", Prefix("model.", ""), false);
  ExpectSame("opt-350m-style", Prefix("model.", ""), false);
}

TEST(HfTensorNamesTest, NamesAreMapped) {
  const HfTensorNames nested("model.", {"language_model.model.norm.weight", "vision_tower.a"});
  EXPECT_EQ(nested.Map("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(nested.Map("vision_tower.a"), std::nullopt);
  const HfTensorNames outer("model.", {"model.language_model.norm.weight", "lm_head.weight"});
  EXPECT_EQ(outer.Map("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(outer.Map("model.multi_modal_projector.x"), std::nullopt);
  const HfTensorNames neox("gpt_neox.", {"embed_in.weight", "layers.0.mlp.x"});
  EXPECT_EQ(neox.Map("embed_in.weight"), "gpt_neox.embed_in.weight");
  EXPECT_EQ(neox.Map("embed_out.weight"), "embed_out.weight");
  const HfTensorNames plain("model.", {"model.norm.weight", "lm_head.weight"});
  EXPECT_EQ(plain.Map("lm_head.weight"), "lm_head.weight");
}

}  // namespace
}  // namespace hydrant::engine::weights
