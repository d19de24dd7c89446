#include "kernels/kv_store.h"

namespace hydrant::kernels {

std::string_view KvDTypeName(KvDType dtype) {
  switch (dtype) {
    case KvDType::kF32:
      return "f32";
    case KvDType::kBF16:
      return "bf16";
  }
  return "unknown";
}

}  // namespace hydrant::kernels
