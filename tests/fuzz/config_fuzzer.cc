// config.json of every family, and the same text as a generation_config.json.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/weights/hf_config.h"
#include "engine/weights/json_file.h"

using namespace hydrant::engine::weights;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = ParseJsonObject("config.json", {reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  (void)ReadHfConfig("config.json", *json);
  (void)ReadHfGenerationConfig("generation_config.json", *json, 1000);
  return 0;
}
