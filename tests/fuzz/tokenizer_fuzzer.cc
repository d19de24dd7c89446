// tokenizer.json: every component it may describe, and then text through what it describes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace {

// One for the process, in memory where there is such a place.
class Directory {
 public:
  Directory() {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = std::filesystem::exists("/dev/shm") ? "/dev/shm/hydrant-fuzz-XXXXXX"
                                                          : "/tmp/hydrant-fuzz-XXXXXX";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Directory directory;
  std::ofstream(directory.path() + "/tokenizer.json", std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto tokenizer = hydrant::engine::Tokenizer::FromDirectory(directory.path());
  if (!tokenizer.ok()) return 0;
  for (const char* text :
       {"Hello  w\xc3\xb6rld, 12\xff\n<s>", "\xe2\x96\x81 a\xcc\x81 \xf0\x9f\x98\x80"}) {
    const auto ids = (*tokenizer)->Encode(text, true);
    (*tokenizer)->Decode(ids, false);
    (*tokenizer)->Decode(ids, true);
  }
  return 0;
}
