// Which numbers a linear layer of int4 is packed from, and in what dtype.

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/blocks.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/ggml_types.h"
#include "engine/weights/loaded_checkpoint.h"
#include "kernels/float16.h"

namespace hydrant::engine {
namespace {

using kernels::WeightDType;
using weights::RowOrder;

constexpr int64_t kCols = 64;
constexpr uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ8_0 = 8;

// Tensors of any types, in memory.
class TensorsInMemory : public weights::LoadedCheckpoint {
 public:
  explicit TensorsInMemory(weights::CheckpointContents contents)
      : LoadedCheckpoint(std::move(contents)) {}
  std::string_view format() const override { return "memory"; }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return absl::UnimplementedError("no tokenizer");
  }
  absl::StatusOr<std::string> TokenizerKind() const override { return std::string(); }
  void DropPages() const override {}
};

class WeightLoaderTest : public testing::Test {
 protected:
  // `rows` of blocks whose numbers are f16 near 1 where the type has them, and bytes that differ.
  void Add(const std::string& name, uint32_t type_id, int64_t rows,
           RowOrder order = RowOrder::kSame) {
    const weights::GgmlType* type = weights::FindGgmlType(type_id);
    weights::StoredTensor tensor;
    tensor.name = tensor.file_name = name + ".weight";
    tensor.type = type->name;
    tensor.rows = rows;
    tensor.cols = kCols;
    tensor.row_bytes = kCols / type->block_size * type->block_bytes;
    tensor.dequantize = type->dequantize;
    tensor.read_groups = type->read_groups;
    tensor.order = order;
    tensor.head_dim = 4;
    std::vector<uint8_t>& data = data_.emplace_back(rows * tensor.row_bytes);
    for (size_t i = 0; i < data.size(); ++i) {
      const size_t at = i % type->block_bytes;
      const size_t halves = type_id == kQ4_1 ? 4 : type_id == kF16 || type_id == kF32 ? 99 : 2;
      data[i] = static_cast<uint8_t>((i * 89 + 7 * i / type->block_bytes) % 251);
      if (at < halves && at % 2 == 1) data[i] = type_id == kF32 && at == 3 ? 0x3f : 0x3c;
    }
    tensor.data = data.data();
    ASSERT_TRUE(contents_.tensors.Add(std::move(tensor)).ok());
  }
  std::vector<uint8_t>& last_data() { return data_.back(); }

  absl::StatusOr<LinearLayer> Load(const std::vector<LinearPart>& parts, WeightDType dtype,
                                   LinearRole role = LinearRole::kInner) {
    const TensorsInMemory checkpoint(contents_);
    WeightLoader loader(checkpoint, *backend_, dtype);
    return loader.Linear(parts, kCols, false, role);
  }

  // The dtype that int4 becomes, by the size of what is packed.
  void ExpectPackedAs(WeightDType dtype, const std::vector<LinearPart>& parts,
                      LinearRole role = LinearRole::kInner) {
    const auto layer = Load(parts, WeightDType::kInt4, role);
    const auto expected = Load(parts, WeightDType::kInt8, role);
    ASSERT_TRUE(layer.ok() && expected.ok()) << layer.status();
    EXPECT_EQ(layer->weight->bytes() == expected->weight->bytes(), dtype == WeightDType::kInt8);
  }

  // y = x W^T of a row that int8 with a scale for each 32 columns represents exactly.
  std::vector<float> Product(const LinearLayer& layer) {
    std::vector<float> x(kCols), y(layer.weight->rows());
    for (int64_t i = 0; i < kCols; ++i) x[i] = i % 32 == 0 ? 127.0f : float(i * 37 % 255 - 127);
    backend_->Reserve(1, kCols, 16, {1, 1, 16, 1.0f});
    backend_->Linear({x.data(), 1, kCols}, *layer.weight, nullptr, false,
                     {y.data(), 1, layer.weight->rows()});
    return y;
  }

  std::unique_ptr<kernels::Backend> backend_ = kernels::CreateReferenceBackend();
  weights::CheckpointContents contents_{"memory"};
  std::deque<std::vector<uint8_t>> data_;
};

TEST_F(WeightLoaderTest, KeepsTheGroupsOfStackedAndReorderedRows) {
  Add("q", kQ4_1, 8, RowOrder::kRotaryInterleaved);
  Add("k", kQ4_0, 4, RowOrder::kRotaryInterleaved);
  Add("qkv", kQ4_0, 24, RowOrder::kQkvStacked);
  for (const std::vector<LinearPart>& parts :
       {std::vector<LinearPart>{{"q", 8}, {"k", 4}},
        std::vector<LinearPart>{{"qkv", 8, 24, 4, 12, 0}, {"qkv", 8, 24, 4, 12, 4}}}) {
    const auto int4 = Load(parts, WeightDType::kInt4);
    ASSERT_TRUE(int4.ok()) << int4.status();
    const auto exact = Load(parts, WeightDType::kF32);
    ASSERT_TRUE(exact.ok()) << exact.status();
    const std::vector<float> expected = Product(*exact), y = Product(*int4);
    for (size_t i = 0; i < y.size(); ++i) {
      // Far less than any level makes, 127 or more in the large columns.
      EXPECT_NEAR(y[i], expected[i], 0.05) << i;
      for (size_t j = 0; j < i; ++j) EXPECT_GT(std::abs(expected[i] - expected[j]), 0.2);
    }
    ExpectPackedAs(WeightDType::kInt4, parts);
  }
}

TEST_F(WeightLoaderTest, TakesNoBitsFromWhatHasMoreThanFour) {
  Add("four", kQ4_1, 8);
  Add("eight", kQ8_0, 8);
  Add("half", kF16, 8);
  ExpectPackedAs(WeightDType::kInt8, {{"eight", 8}});
  ExpectPackedAs(WeightDType::kInt8, {{"half", 8}});
  ExpectPackedAs(WeightDType::kInt8, {{"four", 8}, {"eight", 8}});
  ExpectPackedAs(WeightDType::kInt4, {{"four", 8}});
  ExpectPackedAs(WeightDType::kInt4, {{"four", 8}}, LinearRole::kHead);
}

TEST_F(WeightLoaderTest, QuantisesAllButTheHeadOfACheckpointThatIsNot) {
  Add("single", kF32, 8);
  Add("half", kF16, 8);
  ExpectPackedAs(WeightDType::kInt4, {{"single", 8}, {"half", 8}});
  ExpectPackedAs(WeightDType::kInt8, {{"half", 8}}, LinearRole::kHead);
}

TEST_F(WeightLoaderTest, AScaleThatIsNoNumberIsAnError) {
  Add("four", kQ4_1, 8);
  last_data()[3 * 40 + 1] = 0x7e;
  const auto layer = Load({{"four", 8}}, WeightDType::kInt4);
  EXPECT_EQ(layer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(layer.status().message().find("four.weight"), absl::string_view::npos)
      << layer.status();
}

}  // namespace
}  // namespace hydrant::engine
