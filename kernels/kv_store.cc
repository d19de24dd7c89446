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
  }
  return "unknown";
}

size_t KvElementBytes(KvDType dtype) {
  switch (dtype) {
    case KvDType::kF32:
      return sizeof(float);
    case KvDType::kBF16:
      return sizeof(uint16_t);
    case KvDType::kInt8:
      return sizeof(int8_t);
  }
  return 0;
}

size_t KvScaleBytes(KvDType dtype) { return dtype == KvDType::kInt8 ? sizeof(float) : 0; }

}  // namespace hydrant::kernels
