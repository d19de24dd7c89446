#include "engine/weights/ggml_types.h"

#include "absl/strings/str_cat.h"

namespace hydrant::engine::weights {
namespace {

constexpr GgmlType kTypes[] = {
    {0, "F32", 1, 4, DequantizeF32},
    {1, "F16", 1, 2, DequantizeF16},
    {2, "Q4_0", 32, 18, DequantizeQ4_0, ReadGroupsQ4_0},
    {3, "Q4_1", 32, 20, DequantizeQ4_1, ReadGroupsQ4_1},
    {6, "Q5_0", 32, 22, DequantizeQ5_0},
    {7, "Q5_1", 32, 24, DequantizeQ5_1},
    {8, "Q8_0", 32, 34, DequantizeQ8_0},
    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84, DequantizeQ2K},
    {11, "Q3_K", 256, 110, DequantizeQ3K},
    {12, "Q4_K", 256, 144, DequantizeQ4K, ReadGroupsQ4K},
    {13, "Q5_K", 256, 176, DequantizeQ5K},
    {14, "Q6_K", 256, 210, DequantizeQ6K},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18, DequantizeIq4Nl},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136, DequantizeIq4Xs},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2, DequantizeBf16},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};

}  // namespace

const GgmlType* FindGgmlType(uint32_t id) {
  for (const GgmlType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

std::string ReadableGgmlTypes() {
  std::string names;
  for (const GgmlType& type : kTypes) {
    if (type.dequantize != nullptr) absl::StrAppend(&names, names.empty() ? "" : ", ", type.name);
  }
  return names;
}

}  // namespace hydrant::engine::weights
