// A whole regular file mapped read-only. The view stays valid, and at the same address, for the
// object's life; it may be read from several threads. (A file that somebody truncates while it is
// mapped raises SIGBUS on the lost pages, as with every mmap.)

#ifndef HYDRANT_ENGINE_WEIGHTS_MAPPED_FILE_H_
#define HYDRANT_ENGINE_WEIGHTS_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace hydrant::engine::weights {

class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file) naming the path. Never
  // waits on a pipe or a device. An empty file is an empty view.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

  // The file will be read once, front to back: read further ahead.
  void AdviseSequential() const;
  // Takes the pages out of this process's memory; what is read later comes back from the file.
  void DropPages() const;

 private:
  MappedFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  const uint8_t* data_;
  size_t size_;
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_MAPPED_FILE_H_
