// Attention over one sequence, one token after the other, in double, from the textbook: a list of
// tokens for each layer and KV head, from which tokens can be taken out.

#ifndef HYDRANT_TESTS_KERNELS_NAIVE_ATTENTION_H_
#define HYDRANT_TESTS_KERNELS_NAIVE_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/quantization.h"
#include "tests/kernels/kv_driver.h"

namespace hydrant::kernels {

struct NaiveToken {
  int32_t position = 0;
  double score = 0.0;
  std::vector<double> key, value;
};

class NaiveSequence {
 public:
  explicit NaiveSequence(KvShape shape)
      : shape_(std::move(shape)), tokens_(shape_.layers * shape_.kv_heads) {}

  std::vector<NaiveToken>& tokens(int layer, int head) {
    return tokens_[layer * shape_.kv_heads + head];
  }

  // Appends the token of a raw qkv row and gives what its query heads see, [heads * head_dim].
  std::vector<double> Append(int layer, int32_t position, const std::vector<float>& row,
                             bool keep_scores) {
    const int dim = shape_.head_dim;
    const int group = shape_.heads / shape_.kv_heads;
    const float* keys = row.data() + shape_.heads * dim;
    const float* values = keys + shape_.kv_heads * dim;
    std::vector<double> out;
    for (int head = 0; head < shape_.kv_heads; ++head) {
      NaiveToken token{position, 0.0, Rotated(keys + head * dim, position),
                       std::vector<double>(values + head * dim, values + (head + 1) * dim)};
      for (std::vector<double>* stored : {&token.key, &token.value}) {
        for (double& element : *stored) element = Multiplied(element);
        if (shape_.dtype == KvDType::kInt8) RoundToInt8(*stored);
      }
      if (KvIsGrouped(shape_.dtype)) {
        RoundRotated(token.key, KvBitsOf(shape_.dtype).key);
        RoundRotated(token.value, KvBitsOf(shape_.dtype).value);
      }
      tokens(layer, head).push_back(std::move(token));
      for (int g = 0; g < group; ++g) {
        const std::vector<double> query = Rotated(row.data() + (head * group + g) * dim, position);
        const std::vector<double> seen = Attend(layer, head, position, query, keep_scores);
        out.insert(out.end(), seen.begin(), seen.end());
      }
    }
    return out;
  }

  std::vector<double> Rotated(const float* head, int32_t position) const {
    std::vector<double> result(head, head + shape_.head_dim);
    const RopeParams rope = shape_.rope();
    const int half = rope.rotary_dim / 2;
    for (int i = 0; i < half; ++i) {
      const double angle = static_cast<float>(position) * rope.inv_freq[i];
      result[i] = head[i] * std::cos(angle) - head[i + half] * std::sin(angle);
      result[i + half] = head[i + half] * std::cos(angle) + head[i] * std::sin(angle);
    }
    return result;
  }

  // Of a key, value, query or weight: what is multiplied in a bf16 cache is bf16 on both sides.
  double Multiplied(double value) const {
    return shape_.dtype == KvDType::kBF16 ? RoundToBF16(static_cast<float>(value)) : value;
  }

 private:
  std::vector<double> Attend(int layer, int head, int32_t position,
                             const std::vector<double>& query, bool keep_scores) {
    const int window = shape_.windows.empty() ? 0 : shape_.windows[layer];
    std::vector<double> logits;
    for (const NaiveToken& token : tokens(layer, head)) {
      const bool visible = window == 0 || token.position > position - window;
      double logit = 0.0;
      for (int d = 0; d < shape_.head_dim; ++d) logit += Multiplied(query[d]) * token.key[d];
      logits.push_back(visible ? logit / std::sqrt(double(shape_.head_dim)) : -INFINITY);
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    std::vector<double> out(shape_.head_dim, 0.0);
    for (size_t i = 0; i < logits.size(); ++i) {
      NaiveToken& token = tokens(layer, head)[i];
      const double weight = std::exp(logits[i] - largest);
      for (int d = 0; d < shape_.head_dim; ++d) out[d] += Multiplied(weight) * token.value[d] / sum;
      if (keep_scores) token.score += weight / sum;
    }
    return out;
  }

  // To the nearest of 255 numbers, of which the largest element is one.
  static void RoundToInt8(std::vector<double>& elements) {
    float largest = 0.0f;
    for (const double x : elements) largest = std::max(largest, std::fabs(static_cast<float>(x)));
    if (largest == 0.0f) return;
    const float steps = 127.0f / largest, step = largest / 127.0f;
    for (double& x : elements) x = std::nearbyint(static_cast<float>(x) * steps) * step;
  }

  // Each 32 rotated elements to the nearest of 2^bits numbers that span them.
  static void RoundRotated(std::vector<double>& elements, int bits) {
    std::vector<float> rotated(elements.begin(), elements.end());
    HadamardRotate(rotated.data(), rotated.size());
    for (size_t begin = 0; begin < rotated.size(); begin += 32) {
      const auto first = rotated.begin() + begin;
      const auto last = rotated.begin() + std::min(begin + 32, rotated.size());
      const float zero = BF16Beside(*std::min_element(first, last), -INFINITY);
      const float span = *std::max_element(first, last) - zero;
      const float step = BF16Beside(span * (1.0f / ((1 << bits) - 1)), INFINITY);
      if (step == 0.0f) continue;
      for (auto x = first; x != last; ++x) {
        *x = zero + std::nearbyint((*x - zero) * (1.0f / step)) * step;
      }
    }
    HadamardRotate(rotated.data(), rotated.size());
    elements.assign(rotated.begin(), rotated.end());
  }

  // The nearest bf16 number on that side of x.
  static float BF16Beside(float x, float side) {
    float y = x;
    while (RoundToBF16(y) != y) y = std::nextafter(y, side);
    return y;
  }

  KvShape shape_;
  std::vector<std::vector<NaiveToken>> tokens_;
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_TESTS_KERNELS_NAIVE_ATTENTION_H_
