#include "engine/weights/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/engine/damage.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine::weights {
namespace {

std::string File(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

class SafetensorsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& content) {
    return SafetensorsFile::Open(dir_.Write("model.safetensors", content));
  }

  void ExpectRefused(const std::string& content, const std::string& reason) {
    const auto file = Open(content);
    ASSERT_FALSE(file.ok()) << "expected: " << reason;
    const std::string message(file.status().message());
    EXPECT_NE(message.find(dir_.path() + "/model.safetensors"), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  TempDir dir_;
};

TEST_F(SafetensorsTest, ReadsTensorsWhereTheyLie) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":)" + Entry("F32", "[2,1]", "[4,12]") + R"(,"a":)" +
      Entry("BF16", "[2]", "[0,4]") + R"(,"scalar":)" + Entry("I64", "[]", "[12,20]") +
      R"(,"none":)" + Entry("F16", "[0,4]", "[20,20]") + "}   ";
  const auto file = Open(File(header, "abcdefghijklmnopqrst"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 4u);
  for (const SafetensorsTensor& tensor : (*file)->tensors()) {
    if (tensor.name == "a") {
      EXPECT_STREQ(tensor.dtype->name, "BF16");
      EXPECT_EQ(tensor.shape, std::vector<int64_t>{2});
      EXPECT_EQ(std::memcmp(tensor.data, "abcd", 4), 0);
    } else if (tensor.name == "b") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 1}));
      EXPECT_EQ(std::memcmp(tensor.data, "efghijkl", 8), 0);
    } else if (tensor.name == "scalar") {
      EXPECT_TRUE(tensor.shape.empty());
      EXPECT_EQ(std::memcmp(tensor.data, "mnopqrst", 8), 0);
    } else {
      EXPECT_EQ(tensor.name, "none");
    }
  }
}

TEST_F(SafetensorsTest, HolesAndOverlapsAreTolerated) {
  const auto file = Open(File(
      R"({"a":)" + Entry("U8", "[4]", "[2,6]") + R"(,"b":)" + Entry("U8", "[4]", "[4,8]") + "}",
      "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status();
}

TEST_F(SafetensorsTest, HeadersThatAreNotWellFormed) {
  ExpectRefused("", "too few");
  ExpectRefused("1234567", "too few");
  ExpectRefused(std::string(8, '\xff') + "{}", "claims a header of 18446744073709551615 bytes");
  ExpectRefused(std::string("\3\0\0\0\0\0\0\0{}", 10), "claims a header of 3 bytes");
  ExpectRefused(File("{", ""), "not valid JSON");
  ExpectRefused(File("", ""), "not valid JSON");
  ExpectRefused(File("[]", ""), "expected a JSON object");
  ExpectRefused(File(std::string(1 << 20, '['), ""), "not valid JSON");
  ExpectRefused(File("{\"\xff\":{}}", ""), "not valid JSON");
  ExpectRefused(File(R"({"a":)" + Entry("U8", "[4]", "[0,4]") + R"(,"a":)" +
                         Entry("U8", "[4]", "[4,8]") + "}",
                     "01234567"),
                "'a' appears twice");
}

TEST_F(SafetensorsTest, EntriesThatAreNotWellFormed) {
  const auto refused = [&](const std::string& entry, const std::string& reason) {
    ExpectRefused(File(R"({"bad":)" + entry + "}", "0123456789abcdef"), "tensor 'bad': " + reason);
  };
  refused("7", "its entry is not a JSON object");
  refused("{}", "expected a dtype");
  refused(Entry("F32", "4", "[0,16]"), "expected a dtype");
  refused(Entry("F32", "[4]", "[0]"), "expected a dtype");
  refused(Entry("F33", "[4]", "[0,16]"), "unknown dtype 'F33'");
  refused(Entry("F32", "[-4]", "[0,16]"), "a dimension is not");
  refused(Entry("F32", "[4.0]", "[0,16]"), "a dimension is not");
  refused(Entry("F32", "[99999999999999999999]", "[0,16]"), "a dimension is not");
  refused(Entry("F32", "[4294967296,4294967296]", "[0,16]"), "its size overflows");
  refused(Entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "9 dimensions");
  refused(Entry("F32", "[4]", "[16,0]"), "data_offsets are not");
  refused(Entry("F32", "[4]", "[-16,0]"), "data_offsets are not");
  refused(Entry("F32", "[4]", "[4,20]"), "data_offsets end at 20, outside the file's 16 bytes");
  refused(Entry("F32", "[4]", "[0,12]"), "data_offsets span 12 bytes");
}

TEST_F(SafetensorsTest, NothingButARegularFileIsOpened) {
  EXPECT_EQ(SafetensorsFile::Open(dir_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(SafetensorsFile::Open(dir_.path()).ok());
}

TEST_F(SafetensorsTest, DamagedFilesOpenOrSayWhy) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"model.norm.weight":)" +
                             Entry("F32", "[4,2]", "[0,32]") + R"(,"lm_head.weight":)" +
                             Entry("BF16", "[8]", "[32,48]") + "}";
  const std::string content = File(header, std::string(48, 'w'));
  int refused = 0;
  const auto check = [&](const std::string& damaged) {
    const auto file = Open(damaged);
    if (!file.ok()) {
      ++refused;
      EXPECT_FALSE(file.status().message().empty());
      return;
    }
    for (const SafetensorsTensor& tensor : (*file)->tensors()) {
      int64_t count = tensor.dtype->bytes;
      for (const int64_t dim : tensor.shape) count *= dim;
      EXPECT_GE(std::accumulate(tensor.data, tensor.data + count, 0), 0);
    }
  };
  ForEachTruncation(content, check);
  EXPECT_EQ(refused, 100);
  ForEachMutation(content, 8 + header.size(), 500, check);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace hydrant::engine::weights
