// What `hydrant inspect` tells.

#include "server/inspect/inspection.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/temp_dir.h"

namespace hydrant::server {
namespace {

using nlohmann::json;

const std::string kGolden = HYDRANT_TEST_DATA "/golden/";

Inspection Inspected(const InspectOptions& options) {
  auto inspection = Inspect(options);
  EXPECT_TRUE(inspection.ok()) << inspection.status();
  return *std::move(inspection);
}

void ExpectHas(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(InspectionTest, TellsWhatACheckpointIs) {
  const Inspection i = Inspected({.model = kGolden + "gemma3"});
  const std::string text = InspectionText(i);
  ExpectHas(text, "architecture    gemma3_text\n");
  ExpectHas(text, "parameters      238848\n");
  ExpectHas(text, "heads           4 query, 2 key-value, of 24\n");
  ExpectHas(text, "sliding window  40 tokens in 2 of 4 layers\n");
  ExpectHas(text, "context         512 tokens\n");
  ExpectHas(text, "tokenizer       BPE, byte fallback, 640 tokens\n");
  ExpectHas(text, "eos             2 \"</s>\"\n");
  ExpectHas(text, "chat template   yes\n");
  ExpectHas(text, "F32               54 tensors       238848 values");

  const json told = json::parse(InspectionJson(i));
  EXPECT_EQ(told["architecture"], "gemma3_text");
  EXPECT_EQ(told["tensor_types"]["F32"],
            json({{"tensors", 54}, {"values", 238848}, {"bytes", 955392}}));
  EXPECT_EQ(told["tokenizer"]["eos"], json::parse(R"([{"id": 2, "text": "</s>"}])"));
  EXPECT_EQ(told["tokenizer"]["error"], nullptr);
  EXPECT_EQ(told["chat_template"]["present"], true);
  EXPECT_EQ(told["generation"]["temperature"], nullptr);
}

TEST(InspectionTest, CountsTheSequencesThatFit) {
  // A block of 16 tokens takes 16 * 816 bytes in f32: 80 blocks.
  InspectOptions options{.model = kGolden + "qwen2",
                         .kv_cache_bytes = 80 * 16 * 816,
                         .length = 400,
                         .budget_tokens = 100};
  const auto f32 = [&] { return Inspected(options).kv_dtypes.front(); };
  EXPECT_EQ(f32().name, "f32");
  EXPECT_EQ(f32().bytes_per_token, 816);
  EXPECT_EQ(f32().full_sequences, 3);      // of 25 blocks
  EXPECT_EQ(f32().bounded_sequences, 11);  // of 7 blocks: 101 tokens
  ExpectHas(InspectionText(Inspected(options)), "h2o 100");
  options.eviction = engine::EvictionPolicyKind::kFull;
  EXPECT_EQ(f32().bounded_sequences, 3);
  EXPECT_EQ(InspectionText(Inspected(options)).find("h2o"), std::string::npos);
  EXPECT_EQ(json::parse(InspectionJson(Inspected(options)))["kv_cache"]["eviction"], "full");
  options.length = 513;
  EXPECT_NE(std::string(Inspect(options).status().message()).find("--length: 513"),
            std::string::npos);
}

TEST(InspectionTest, TellsOfWhatCannotBeUsed) {
  engine::TempDir dir;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden + "llama-gqa")) {
    dir.Write(entry.path().filename(), engine::ReadAll(entry.path()));
  }
  dir.Write("generation_config.json",
            R"({"eos_token_id": [2, 7], "do_sample": false, "temperature": 0.5, "top_k": 3})");
  ExpectHas(InspectionText(Inspected({.model = dir.path()})), "temperature 0.5, top_k 3");
  EXPECT_EQ(Inspected({.model = dir.path()}).tokenizer.eos.size(), 2u);

  dir.Write("tokenizer.json", R"({"model": {"type": "Nonesuch"}})");
  dir.Write("chat_template.jinja", "{% for");
  dir.Write("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  const Inspection i = Inspected({.model = dir.path()});
  EXPECT_FALSE(i.tokenizer.status.ok());
  EXPECT_EQ(i.tokenizer.kind, "Nonesuch");
  EXPECT_FALSE(i.chat_template_status.ok());
  ExpectHas(InspectionText(i), "tokenizer       Nonesuch; CANNOT BE USED: ");
  ExpectHas(InspectionText(i), "chat template   yes: default, tool_use; CANNOT BE USED: ");
  const json told = json::parse(InspectionJson(i));
  EXPECT_TRUE(told["tokenizer"]["error"].is_string());
  EXPECT_TRUE(told["chat_template"]["error"].is_string());
}

}  // namespace
}  // namespace hydrant::server
