#include "kernels/backend.h"

namespace hydrant::kernels {

std::string_view WeightDTypeName(WeightDType dtype) {
  switch (dtype) {
    case WeightDType::kF32:
      return "f32";
    case WeightDType::kBF16:
      return "bf16";
    case WeightDType::kInt8:
      return "int8";
    case WeightDType::kInt4:
      return "int4";
  }
  return "unknown";
}

}  // namespace hydrant::kernels
