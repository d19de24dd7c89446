// Damages a file in every way of two kinds, and hands each damaged version to a callback.

#ifndef HYDRANT_TESTS_ENGINE_DAMAGE_H_
#define HYDRANT_TESTS_ENGINE_DAMAGE_H_

#include <cstddef>
#include <functional>
#include <random>
#include <string>

namespace hydrant::engine {

// Cut off after each hundredth of its length, from nothing to all but a hundredth.
inline void ForEachTruncation(const std::string& content,
                              const std::function<void(const std::string&)>& check) {
  for (size_t percent = 0; percent < 100; ++percent) {
    check(content.substr(0, content.size() * percent / 100));
  }
}

// `count` times, one of the first `limit` bytes is another; the same sequence at every run.
inline void ForEachMutation(const std::string& content, size_t limit, int count,
                            const std::function<void(const std::string&)>& check) {
  std::mt19937 random(20240607);
  for (int i = 0; i < count; ++i) {
    std::string damaged = content;
    char& byte = damaged[random() % limit];
    byte = static_cast<char>(static_cast<unsigned char>(byte) + 1 + random() % 255);
    check(damaged);
  }
}

}  // namespace hydrant::engine

#endif  // HYDRANT_TESTS_ENGINE_DAMAGE_H_
