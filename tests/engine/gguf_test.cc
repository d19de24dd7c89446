#include "engine/weights/gguf.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <numeric>

#include "tests/engine/damage.h"
#include "tests/engine/gguf_writer.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine::weights {
namespace {

constexpr uint32_t kF32 = 0, kQ4_0 = 2, kQ4_K = 12;

class GgufTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& content) {
    return GgufFile::Open(dir_.Write("model.gguf", content));
  }

  // The file is refused, naming itself and `reason`.
  void ExpectRefused(const std::string& content, const std::string& reason) {
    const auto file = Open(content);
    ASSERT_FALSE(file.ok()) << "expected: " << reason;
    const std::string message(file.status().message());
    EXPECT_NE(message.find(dir_.path() + "/model.gguf"), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  TempDir dir_;
};

std::string Floats(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += Bytes(static_cast<float>(i));
  return bytes;
}

// Reads all that the accessors can reach; the sum keeps the reads alive.
uint64_t ReadEverything(const GgufFile& file) {
  uint64_t sum = 0;
  for (const char* key : {"a.int", "a.string", "a.floats", "a.strings", "a.bools"}) {
    sum += file.Has(key);
    if (auto v = file.Int(key); v.ok()) sum += static_cast<uint64_t>(v->value_or(0));
    if (auto v = file.Float(key); v.ok()) sum += v->has_value();
    if (auto v = file.Bool(key); v.ok()) sum += v->has_value();
    if (auto v = file.String(key); v.ok()) sum += std::string(v->value_or("")).size();
    if (auto v = file.Ints(key); v.ok() && v->has_value()) sum += (*v)->size();
    if (auto v = file.Floats(key); v.ok() && v->has_value()) sum += (*v)->size();
    if (auto v = file.Strings(key); v.ok() && v->has_value()) {
      for (const std::string_view text : **v) sum += std::string(text).size();
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    sum = std::accumulate(tensor.data, tensor.data + tensor.bytes, sum);
    EXPECT_EQ(file.FindTensor(tensor.name), &tensor);
  }
  return sum;
}

GgufWriter SmallFile() {
  GgufWriter writer;
  writer.U32("a.int", 7);
  writer.String("a.string", "text");
  writer.Array("a.floats", 6, 3, Floats(3));
  writer.Array("a.strings", 8, 2, GgufString("one") + GgufString("two"));
  writer.Array("a.bools", 7, 2, std::string("\0\1", 2));
  writer.Tensor("first", {4, 3}, kF32, Floats(12));
  writer.Tensor("second", {32, 2}, kQ4_0, std::string(36, 'q'));
  return writer;
}

TEST_F(GgufTest, ReadsScalarsOfEveryType) {
  GgufWriter writer;
  writer.Key("u8", 0, Bytes<uint8_t>(200));
  writer.Key("i8", 1, Bytes<int8_t>(-100));
  writer.Key("u16", 2, Bytes<uint16_t>(60000));
  writer.Key("i16", 3, Bytes<int16_t>(-30000));
  writer.Key("u32", 4, Bytes<uint32_t>(4000000000u));
  writer.Key("i32", 5, Bytes<int32_t>(-2000000000));
  writer.Key("u64", 10, Bytes<uint64_t>(1ull << 62));
  writer.Key("i64", 11, Bytes<int64_t>(-(1ll << 62)));
  writer.Key("f32", 6, Bytes<float>(1.5f));
  writer.Key("f64", 12, Bytes<double>(-0.1));
  writer.Key("bool", 7, std::string(1, '\1'));
  writer.String("string", "caf\xc3\xa9");
  const auto file = Open(writer.Build());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->Int("u8"), 200);
  EXPECT_EQ(*(*file)->Int("i8"), -100);
  EXPECT_EQ(*(*file)->Int("u16"), 60000);
  EXPECT_EQ(*(*file)->Int("i16"), -30000);
  EXPECT_EQ(*(*file)->Int("u32"), 4000000000);
  EXPECT_EQ(*(*file)->Int("i32"), -2000000000);
  EXPECT_EQ(*(*file)->Int("u64"), 1ll << 62);
  EXPECT_EQ(*(*file)->Int("i64"), -(1ll << 62));
  EXPECT_EQ(*(*file)->Float("f32"), 1.5);
  EXPECT_EQ(*(*file)->Float("f64"), -0.1);
  EXPECT_EQ(*(*file)->Float("u8"), 200.0);
  EXPECT_EQ(*(*file)->Bool("bool"), true);
  EXPECT_EQ(*(*file)->String("string"), "caf\xc3\xa9");
}

TEST_F(GgufTest, ReadsArrays) {
  GgufWriter writer = SmallFile();
  writer.Array("ints", 3, 2, Bytes<int16_t>(-5) + Bytes<int16_t>(9));
  writer.Array("empty", 8, 0, "");
  writer.Array("nested", 9, 2,
               Bytes<uint32_t>(4) + Bytes<uint64_t>(1) + Bytes<uint32_t>(3) +  //
                   Bytes<uint32_t>(8) + Bytes<uint64_t>(1) + GgufString("x"));
  writer.U32("after", 1);
  const auto file = Open(writer.Build());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->Ints("ints"), (std::vector<int64_t>{-5, 9}));
  EXPECT_EQ(*(*file)->Floats("a.floats"), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(*(*file)->Floats("ints"), (std::vector<double>{-5, 9}));
  EXPECT_EQ(*(*file)->Strings("a.strings"), (std::vector<std::string_view>{"one", "two"}));
  EXPECT_EQ(*(*file)->Strings("empty"), std::vector<std::string_view>());
  EXPECT_EQ(*(*file)->Int("after"), 1);
  EXPECT_TRUE((*file)->Has("nested"));
  EXPECT_FALSE((*file)->Ints("nested").ok());
}

TEST_F(GgufTest, ReadsTensors) {
  const auto file = Open(SmallFile().Build());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const GgufTensor* first = (*file)->FindTensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->dims, (std::vector<int64_t>{4, 3}));
  ASSERT_EQ(first->bytes, 48u);
  EXPECT_EQ(std::memcmp(first->data, Floats(12).data(), 48), 0);
  const GgufTensor* second = (*file)->FindTensor("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->type, kQ4_0);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second->data), second->bytes),
            std::string(36, 'q'));
  EXPECT_EQ((*file)->FindTensor("third"), nullptr);
}

TEST_F(GgufTest, KeysThatAreAbsentOrOfAnotherType) {
  GgufWriter writer = SmallFile();
  writer.Key("huge", 10, Bytes<uint64_t>(~0ull));
  const auto file = Open(writer.Build());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE((*file)->Has("none"));
  EXPECT_EQ(*(*file)->Int("none"), std::nullopt);
  EXPECT_EQ(*(*file)->Strings("none"), std::nullopt);
  for (const absl::Status& status :
       {(*file)->Int("a.string").status(), (*file)->Float("a.string").status(),
        (*file)->Bool("a.string").status(), (*file)->Ints("a.string").status(),
        (*file)->Strings("a.string").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("'a.string' is of type string"), std::string::npos)
        << status;
  }
  EXPECT_FALSE((*file)->String("a.int").ok());
  EXPECT_FALSE((*file)->Int("a.floats").ok());
  EXPECT_FALSE((*file)->Ints("a.floats").ok());
  EXPECT_FALSE((*file)->Floats("a.strings").ok());
  EXPECT_FALSE((*file)->Strings("a.floats").ok());
  EXPECT_FALSE((*file)->Int("huge").ok());
}

TEST_F(GgufTest, MagicAndVersion) {
  GgufWriter writer = SmallFile();
  writer.version = 2;
  EXPECT_TRUE(Open(writer.Build()).ok());
  writer.version = 1;
  ExpectRefused(writer.Build(), "GGUF version 1 is not supported");
  writer.version = 4;
  ExpectRefused(writer.Build(), "GGUF version 4 is not supported");
  writer.version = 0x03000000;
  ExpectRefused(writer.Build(), "big-endian");
  writer.magic = 0x12345678;
  ExpectRefused(writer.Build(), "no GGUF magic");
  ExpectRefused("", "no GGUF magic");
  ExpectRefused("GGUF", "truncated in the header");
}

TEST_F(GgufTest, CountsThatTheFileCannotHold) {
  for (const uint64_t count : {uint64_t{60000}, uint64_t{1} << 40, ~uint64_t{0}}) {
    GgufWriter writer = SmallFile();
    writer.num_tensors = count;
    ExpectRefused(writer.Build(), "claims " + std::to_string(count) + " tensors");
    writer = SmallFile();
    writer.num_keys = count;
    ExpectRefused(writer.Build(), std::to_string(count) + " metadata keys");
    writer = GgufWriter();
    writer.Array("k", 6, count, Floats(2));
    ExpectRefused(writer.Build(), "metadata key 'k' claims " + std::to_string(count));
    writer = GgufWriter();
    writer.Array("k", 8, count, GgufString("one"));
    ExpectRefused(writer.Build(), "metadata key 'k', string ");
    writer = GgufWriter();
    writer.Array("k", 9, count, Bytes<uint32_t>(4) + Bytes<uint64_t>(0));
    ExpectRefused(writer.Build(), "metadata key 'k'");
    writer = GgufWriter();
    writer.Key("k", 8, Bytes(count) + "text");
    ExpectRefused(writer.Build(), "metadata key 'k'");
  }
  GgufWriter writer;
  writer.num_keys = 1;
  ExpectRefused(writer.Build() + Bytes<uint64_t>(~0ull) + "name, and more", "metadata key 0");
}

TEST_F(GgufTest, LongArraysAreCheckedButNotHandedOut) {
  constexpr size_t kCount = 4194305;
  GgufWriter writer;
  writer.Array("k", 0, kCount, std::string(kCount, '\1'));
  const auto file = Open(writer.Build());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto values = (*file)->Ints("k");
  ASSERT_FALSE(values.ok());
  EXPECT_NE(std::string(values.status().message()).find("the limit is 4194304"), std::string::npos);
}

TEST_F(GgufTest, MetadataThatIsNotWellFormed) {
  GgufWriter writer = SmallFile();
  writer.U32("a.int", 8);
  ExpectRefused(writer.Build(), "'a.int' appears twice");
  writer = GgufWriter();
  writer.Key("k", 13, "12345678");
  ExpectRefused(writer.Build(), "'k' has unknown value type 13");
  writer = GgufWriter();
  writer.Array("k", 77, 1, "12345678");
  ExpectRefused(writer.Build(), "'k' has unknown value type 77");
  writer = GgufWriter();
  writer.Key("k", 7, "\2");
  ExpectRefused(writer.Build(), "'k' has a bool that is neither 0 nor 1");
  writer = GgufWriter();
  writer.U32("", 1);
  ExpectRefused(writer.Build(), "metadata key 0 has a name of 0 bytes");
  std::string nested = Bytes<uint32_t>(4) + Bytes<uint64_t>(0);
  for (int i = 0; i < 10000; ++i) nested = Bytes<uint32_t>(9) + Bytes<uint64_t>(1) + nested;
  writer = GgufWriter();
  writer.Key("k", 9, nested);
  ExpectRefused(writer.Build(), "'k' nests arrays deeper than");
}

TEST_F(GgufTest, Alignment) {
  for (const uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufWriter writer = SmallFile();
    writer.alignment = alignment;
    writer.U32("general.alignment", alignment);
    writer.Tensor("third", {4}, kF32, Floats(4));
    const auto file = Open(writer.Build());
    // The first two tensors lie at multiples of 32 and 64: not of 4096.
    if (alignment > 64) {
      EXPECT_FALSE(file.ok());
      continue;
    }
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(std::memcmp((*file)->FindTensor("third")->data, Floats(4).data(), 16), 0);
  }
  for (const uint32_t alignment : {0u, 24u, 0xffffffffu}) {
    GgufWriter writer = SmallFile();
    writer.U32("general.alignment", alignment);
    ExpectRefused(writer.Build(), "general.alignment is " + std::to_string(alignment));
  }
  GgufWriter writer = SmallFile();
  writer.Key("general.alignment", 11, Bytes<int64_t>(INT64_MIN));
  ExpectRefused(writer.Build(), "general.alignment");
  writer = SmallFile();
  writer.String("general.alignment", "32");
  ExpectRefused(writer.Build(), "general.alignment");
}

TEST_F(GgufTest, TensorsThatAreNotWellFormed) {
  const auto refused = [&](const std::vector<uint64_t>& dims, uint32_t type,
                           std::optional<uint64_t> offset, const std::string& reason) {
    GgufWriter writer = SmallFile();
    writer.Tensor("bad", dims, type, Floats(64), offset);
    ExpectRefused(writer.Build(), "tensor 'bad'" + reason);
  };
  refused({}, kF32, {}, " has 0 dimensions");
  refused({1, 1, 1, 1, 1}, kF32, {}, " has 5 dimensions");
  refused({4, 0}, kF32, {}, " has a dimension of size 0");
  refused({uint64_t{1} << 32, uint64_t{1} << 32}, kF32, {}, ": the product");
  refused({uint64_t{1} << 63}, kF32, {}, ": the product");
  refused({uint64_t{1} << 62}, kF32, {}, ": its size overflows");
  refused({4}, 4, {}, " has unknown ggml type 4");
  refused({4}, 999, {}, " has unknown ggml type 999");
  refused({48}, kQ4_0, {}, ": rows of 48 values are not whole blocks of Q4_0");
  refused({128}, kQ4_K, {}, ": rows of 128 values are not whole blocks of Q4_K");
  refused({4}, kF32, 4, ": offset 4 is not a multiple");
  refused({64}, kF32, 3200, ": 256 bytes at offset 3200 end outside");
  refused({64}, kF32, ~uint64_t{31}, ": 256 bytes at offset");
  refused({65}, kF32, {}, ": 260 bytes");
  GgufWriter writer = SmallFile();
  writer.Tensor("first", {4}, kF32, Floats(4));
  ExpectRefused(writer.Build(), "tensor 'first' appears twice");
}

TEST_F(GgufTest, NothingButARegularFileIsOpened) {
  EXPECT_EQ(GgufFile::Open(dir_.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(GgufFile::Open(dir_.path()).ok());
  const std::string pipe = dir_.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(GgufFile::Open(pipe).ok());
}

TEST_F(GgufTest, VocabularyWithoutTensors) {
  GgufWriter writer;
  writer.Array("tokenizer.ggml.tokens", 8, 2, GgufString("a") + GgufString("b"));
  std::string content = writer.Build();
  content.resize(content.find("b", 60) + 1);  // no padding where the data section would start
  const auto file = Open(content);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Strings("tokenizer.ggml.tokens")->value().size(), 2u);
}

TEST_F(GgufTest, DamagedFilesOpenOrSayWhy) {
  const GgufWriter writer = SmallFile();
  const std::string content = writer.Build();
  int refused = 0;
  const auto check = [&](const std::string& damaged) {
    const auto file = Open(damaged);
    if (file.ok()) {
      ReadEverything(**file);
    } else {
      ++refused;
      EXPECT_FALSE(file.status().message().empty());
    }
  };
  ForEachTruncation(content, check);
  EXPECT_EQ(refused, 100);
  ForEachMutation(content, writer.Header().size(), 500, check);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace hydrant::engine::weights
