// Every file of every kind of checkpoint, cut off after each hundredth of its length and with
// single bytes of its header changed: loading it, all the way to packed weights, succeeds or gives
// a message, and takes no more memory than 64 MB beside the file.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>

#include "engine/chat/chat.h"
#include "engine/engine.h"
#include "engine/models/model.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/engine/damage.h"
#include "tests/engine/gguf_conversion.h"
#include "tests/engine/temp_dir.h"

namespace {
std::atomic<size_t> heap_bytes, heap_peak;
}  // namespace

// Not inlined: g++ would take the pair below for one of new and free.
[[gnu::noinline]] void* operator new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const size_t now = heap_bytes += malloc_usable_size(memory);
  if (now > heap_peak) heap_peak = now;
  return memory;
}

[[gnu::noinline]] void operator delete(void* memory) noexcept {
  heap_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace hydrant::engine {
namespace {

namespace fs = std::filesystem;
using weights::Checkpoint;

const std::string kGolden = HYDRANT_TEST_DATA "/golden/";
constexpr size_t kAllowance = 64 << 20;

absl::Status LoadWeights(const std::string& path) {
  auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  const auto backend = kernels::CreateReferenceBackend();
  Model::Options options;
  options.weight_dtype = kernels::WeightDType::kBF16;
  options.max_rows = 1;
  options.max_slots = 16;
  return Model::Load(**checkpoint, *backend, options, [](double) {}).status();
}

absl::Status LoadTokenizer(const std::string& path) {
  auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  auto tokenizer = (*checkpoint)->LoadTokenizer();
  if (!tokenizer.ok()) return tokenizer.status();
  const auto ids = (*tokenizer)->Encode("Hello, w\xc3\xb6rld\xff 12", true);
  (*tokenizer)->Decode(ids, false);
  return absl::OkStatus();
}

absl::Status LoadTemplate(const std::string& path) {
  auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  if (!(*checkpoint)->chat_template()) return absl::OkStatus();
  auto parsed = chat::Template::Parse(*(*checkpoint)->chat_template());
  if (!parsed.ok()) return parsed.status();
  return parsed->Render({{{"user", "Hello"}}, true}).status();
}

absl::Status LoadAll(const std::string& path) {
  const absl::Status status = LoadWeights(path);
  return status.ok() ? LoadTokenizer(path) : status;
}

struct Damaged {
  std::string checkpoint, file;
  absl::Status (*load)(const std::string& path);
};

std::ostream& operator<<(std::ostream& out, const Damaged& damaged) {
  return out << damaged.file << " of " << damaged.checkpoint;
}

// The bytes that describe the others.
size_t HeaderBytes(const std::string& file, const std::string& content) {
  if (!file.ends_with(".safetensors")) return content.size();
  uint64_t header = 0;
  std::memcpy(&header, content.data(), sizeof(header));
  return sizeof(header) + header;
}

class EveryDamagedFileTest : public testing::TestWithParam<Damaged> {
 protected:
  // `path`: what is loaded; `file`: what is damaged in it.
  void Check(const std::string& path, const std::string& file, const std::string& content,
             size_t header_bytes) {
    const auto load = GetParam().load;
    ASSERT_TRUE(load(path).ok()) << load(path);
    int refused = 0;
    const auto check = [&](const std::string& damaged) {
      dir_.Write(file, damaged);
      const size_t before = heap_bytes;
      heap_peak = before;
      const absl::Status status = load(path);
      EXPECT_LE(heap_peak - before, kAllowance + content.size());
      if (status.ok()) return;
      ++refused;
      EXPECT_GT(status.message().size(), 10u) << status;
    };
    ForEachTruncation(content, check);
    ForEachMutation(content, header_bytes, 500, check);
    EXPECT_GT(refused, 0);
  }

  TempDir dir_;
};

TEST_P(EveryDamagedFileTest, LoadOrSayWhy) {
  const Damaged& damaged = GetParam();
  const std::string golden = kGolden + damaged.checkpoint;
  if (damaged.file == "model.gguf") {
    const auto family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                     [&](auto& f) { return f.checkpoint == damaged.checkpoint; });
    const auto directory = Checkpoint::Open(golden);
    ASSERT_TRUE(directory.ok()) << directory.status();
    GgufWriter writer = Convert(*family, **directory);
    ConvertTokenizer(nlohmann::json::parse(ReadAll(kGolden + "llama-gqa/tokenizer.json")), &writer);
    const std::string content = writer.Build();
    Check(dir_.Write(damaged.file, content), damaged.file, content, writer.Header().size());
    return;
  }
  for (const auto& entry : fs::directory_iterator(golden)) {
    const std::string name = entry.path().filename();
    if (name != "golden.json") dir_.Write(name, ReadAll(entry.path()));
  }
  const std::string content = ReadAll(golden + "/" + damaged.file);
  Check(dir_.path(), damaged.file, content, HeaderBytes(damaged.file, content));
}

std::vector<Damaged> Cases() {
  std::vector<Damaged> cases;
  for (const char* checkpoint :
       {"gemma3", "gpt-neox", "llama-gqa", "llama-mqa-bias", "llama-spm-bf16", "llama3-rope",
        "mistral", "opt", "opt-350m-style", "qwen2", "qwen3"}) {
    cases.push_back({checkpoint, "config.json", LoadWeights});
    const std::string one_file = kGolden + checkpoint + "/model.safetensors";
    const bool sharded = !fs::exists(one_file);
    cases.push_back(
        {checkpoint, sharded ? "model.safetensors.index.json" : "model.safetensors", LoadWeights});
  }
  for (const Family& family : kFamilies)
    cases.push_back({family.checkpoint, "model.gguf", LoadAll});
  for (const char* checkpoint : {"llama-gqa", "gemma3"}) {
    cases.push_back({checkpoint, "tokenizer.json", LoadTokenizer});
    cases.push_back({checkpoint, "tokenizer_config.json", LoadTokenizer});
    cases.push_back({checkpoint, "generation_config.json", LoadWeights});
    cases.push_back({checkpoint, "chat_template.jinja", LoadTemplate});
  }
  return cases;
}

// A number alone, of a size that no model has: nothing may be allocated by it.
TEST(DamagedFilesTest, AClaimedContextTakesNoMemory) {
  TempDir dir;
  for (const auto& entry : fs::directory_iterator(kGolden + "llama-gqa")) {
    dir.Write(entry.path().filename(), ReadAll(entry.path()));
  }
  nlohmann::json config = nlohmann::json::parse(ReadAll(dir.path() + "/config.json"));
  config["max_position_embeddings"] = 1 << 28;
  dir.Write("config.json", config.dump());
  EngineOptions options;
  options.model_path = dir.path();
  options.threads = 2;
  options.kv_cache_bytes = 1 << 20;
  const size_t before = heap_bytes;
  heap_peak = before;
  const auto engine = Engine::Load(options, nullptr, [](std::string_view, double) {});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_LE(heap_peak - before, kAllowance);
}

INSTANTIATE_TEST_SUITE_P(Files, EveryDamagedFileTest, testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           std::string name = info.param.checkpoint + "_" + info.param.file;
                           for (char& c : name) {
                             if (!isalnum(c)) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace hydrant::engine
