// Tensors' names as their architecture has them, from those that a directory saves them under: a
// model of text and images has its language model under a name of its own, and one that was saved
// without its head lacks the name of the base model.

#ifndef HYDRANT_ENGINE_WEIGHTS_HF_TENSOR_NAMES_H_
#define HYDRANT_ENGINE_WEIGHTS_HF_TENSOR_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant::engine::weights {

class HfTensorNames {
 public:
  // `base`: what the architecture's names but the head's start with ("model."). `saved`: all names
  // in the directory.
  HfTensorNames(std::string_view base, const std::vector<std::string_view>& saved);

  // nullopt: no part of the language model.
  std::optional<std::string> Map(std::string_view saved) const;

 private:
  std::string_view base_;
  bool lacks_base_ = false;    // names of the base model lack `base`
  bool has_language_ = false;  // some name is that of a language model among others
};

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_HF_TENSOR_NAMES_H_
