#include "kernels/kv_store.h"

namespace hydrant::kernels {

std::string_view KvDTypeName(KvDType dtype) {
  switch (dtype) {
    case KvDType::kF32:
      return "f32";
    case KvDType::kBF16:
      return "bf16";
    case KvDType::kInt8:
      return "int8";
    case KvDType::kInt4:
      return "int4";
    case KvDType::kKivi2:
      return "kivi2";
  }
  return "unknown";
}

KvBits KvBitsOf(KvDType dtype) {
  switch (dtype) {
    case KvDType::kF32:
      return {32, 32};
    case KvDType::kBF16:
      return {16, 16};
    case KvDType::kInt8:
      return {8, 8};
    case KvDType::kInt4:
      return {6, 4};
    case KvDType::kKivi2:
      return {4, 2};
  }
  return {};
}

}  // namespace hydrant::kernels
