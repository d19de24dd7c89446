// Text from a file, made fit for a message: quoted, escaped, and cut when long.

#ifndef HYDRANT_ENGINE_WEIGHTS_QUOTE_H_
#define HYDRANT_ENGINE_WEIGHTS_QUOTE_H_

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hydrant::engine::weights {

inline std::string Quote(std::string_view text) {
  constexpr size_t kLongest = 128;
  const bool cut = text.size() > kLongest;
  if (cut) text = text.substr(0, kLongest);
  return absl::StrCat("'", absl::CHexEscape(absl::string_view(text.data(), text.size())),
                      cut ? "...'" : "'");
}

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_QUOTE_H_
