// Constants of the GGUF format that its parser and its accessors share (ggml/docs/gguf.md).

#ifndef HYDRANT_ENGINE_WEIGHTS_GGUF_FORMAT_H_
#define HYDRANT_ENGINE_WEIGHTS_GGUF_FORMAT_H_

#include <cstdint>
#include <cstring>

namespace hydrant::engine::weights {

enum GgufValueType : uint32_t {
  kGgufUint8 = 0,
  kGgufInt8 = 1,
  kGgufUint16 = 2,
  kGgufInt16 = 3,
  kGgufUint32 = 4,
  kGgufInt32 = 5,
  kGgufFloat32 = 6,
  kGgufBool = 7,
  kGgufString = 8,
  kGgufArray = 9,
  kGgufUint64 = 10,
  kGgufInt64 = 11,
  kGgufFloat64 = 12,
};

inline constexpr const char* kGgufTypeNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                 "int32",  "float32", "bool",   "string", "array",
                                                 "uint64", "int64",   "float64"};
inline constexpr uint32_t kGgufNumTypes = 13;

// Bytes of a scalar; 0 for strings and arrays, whose size depends on their content.
inline constexpr uint64_t kGgufTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Any alignment; the host is little-endian (half.h asserts it), as the file is.
template <typename T>
T GgufLoad(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_GGUF_FORMAT_H_
