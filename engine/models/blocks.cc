#include "engine/models/blocks.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/float16.h"

namespace hydrant::engine {

WeightLoader::WeightLoader(const weights::Checkpoint& checkpoint, kernels::Backend& backend,
                           kernels::WeightDType dtype)
    : checkpoint_(checkpoint), backend_(backend), dtype_(dtype) {
  for (const weights::TensorView& view : checkpoint.Tensors()) {
    quantised_ = quantised_ || !view.is_float();
  }
}

absl::StatusOr<LinearLayer> WeightLoader::Linear(const std::vector<LinearPart>& parts, int64_t cols,
                                                 bool bias_expected, LinearRole role) {
  struct Stacked {
    int64_t first_row;
    const LinearPart* part;
    weights::TensorView view;
  };
  std::vector<Stacked> stack;
  std::vector<float> bias;
  int64_t rows = 0;
  for (const LinearPart& part : parts) {
    const int64_t file_rows = part.file_rows > 0 ? part.file_rows : part.rows;
    auto view = checkpoint_.Tensor(part.name + ".weight", file_rows, cols);
    if (!view.ok()) return view.status();
    stack.push_back({rows, &part, *std::move(view)});
    if (const std::string name = part.name + ".bias"; bias_expected || checkpoint_.Has(name)) {
      auto view_of_bias = checkpoint_.Tensor(name, 1, file_rows);
      if (!view_of_bias.ok()) return view_of_bias.status();
      std::vector<float> values(file_rows);
      view_of_bias->read_row(0, values.data());
      bias.resize(rows);
      for (int64_t row = 0; row < part.rows; ++row) bias.push_back(values[part.FileRow(row)]);
    }
    rows += part.rows;
  }

  kernels::MatrixSource source;
  source.rows = rows;
  source.cols = cols;
  // A weight that is no number would be lost in quantising, and the model would talk nonsense.
  std::atomic<const Stacked*> broken = nullptr;
  const auto stacked_at = [&](int64_t row) {
    return &*std::prev(
        std::upper_bound(stack.begin(), stack.end(), row,
                         [](int64_t r, const Stacked& stacked) { return r < stacked.first_row; }));
  };
  source.read_row = [&](int64_t row, float* out) {
    const Stacked* stacked = stacked_at(row);
    stacked->view.read_row(stacked->part->FileRow(row - stacked->first_row), out);
    float zero = 0;
    for (int64_t i = 0; i < cols; ++i) zero += out[i] * 0.0f;
    if (zero != 0.0f) broken = stacked;  // NaN and infinity times 0 are NaN
  };
  kernels::WeightDType dtype = dtype_;
  if (dtype == kernels::WeightDType::kInt4) {
    const bool in_groups = std::all_of(stack.begin(), stack.end(), [](const Stacked& stacked) {
      return stacked.view.read_groups != nullptr;
    });
    if (in_groups) {
      source.read_groups = [&](int64_t row, uint8_t* levels, kernels::Int4Range* ranges) {
        const Stacked* stacked = stacked_at(row);
        stacked->view.read_groups(stacked->part->FileRow(row - stacked->first_row), levels, ranges);
        for (int64_t i = 0; i < kernels::Int4Groups(cols); ++i) {
          if (!kernels::IsFiniteF16(ranges[i].scale) || !kernels::IsFiniteF16(ranges[i].zero)) {
            broken = stacked;
          }
        }
      };
    } else if (quantised_ || role == LinearRole::kHead) {
      dtype = kernels::WeightDType::kInt8;
    }
  }
  LinearLayer layer;
  auto packed = backend_.Pack(source, dtype);
  if (const Stacked* stacked = broken) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", stacked->view.file_name, "\" holds a NaN or an infinity"));
  }
  if (!packed.ok()) return packed.status();
  layer.weight = *std::move(packed);
  packed_bytes_ += layer.weight->bytes();
  if (!bias.empty()) {
    bias.resize(rows);
    layer.bias = backend_.Upload(bias);
    packed_bytes_ += layer.bias->bytes();
  }
  return layer;
}

kernels::Buffer WeightLoader::Uploaded(const std::vector<float>& values) {
  kernels::Buffer buffer = backend_.Upload(values);
  packed_bytes_ += buffer.bytes();
  return buffer;
}

absl::StatusOr<kernels::Buffer> WeightLoader::Vector(const std::string& name, int64_t size,
                                                     double offset) {
  auto view = checkpoint_.Tensor(name, 1, size);
  if (!view.ok()) return view.status();
  std::vector<float> values(size);
  view->read_row(0, values.data());
  for (float& value : values) value += static_cast<float>(offset);
  return Uploaded(values);
}

absl::StatusOr<kernels::Buffer> WeightLoader::VectorOr(const std::string& name, int64_t size,
                                                       float value) {
  if (checkpoint_.Has(name)) return Vector(name, size);
  return Uploaded(std::vector<float>(size, value));
}

absl::StatusOr<std::unique_ptr<kernels::Table>> WeightLoader::Table(
    const std::string& name, int64_t rows, int64_t cols, const kernels::PackedMatrix* packed) {
  auto view = checkpoint_.Tensor(name, rows, cols);
  if (!view.ok()) return view.status();
  auto table = backend_.MakeTable({rows, cols, std::move(view->read_row)}, packed);
  if (table.ok()) packed_bytes_ += (*table)->bytes();
  return table;
}

namespace {

// The share of its own frequency that dimension pair `i` keeps under YaRN (arXiv 2309.00071): all
// of it where it turns more than beta_fast times within the original context, none below beta_slow.
double YarnShare(const RopeConfig& config, int32_t rotary_dim, int i) {
  const auto turns_at = [&](double turns) {
    return rotary_dim *
           std::log(config.original_max_position_embeddings / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  double low = turns_at(config.beta_fast), high = turns_at(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary_dim - 1.0);
  if (low == high) high += 0.001;
  return 1 - std::clamp((i - low) / (high - low), 0.0, 1.0);
}

}  // namespace

kernels::RopeParams MakeRope(const RopeConfig& config, int32_t rotary_dim) {
  kernels::RopeParams rope;
  rope.rotary_dim = rotary_dim;
  rope.attention_factor = static_cast<float>(config.attention_factor);
  const double pi2 = 2.0 * std::numbers::pi;
  for (int i = 0; i < rotary_dim / 2; ++i) {
    double freq = 1.0 / std::pow(config.theta, 2.0 * i / rotary_dim);
    switch (config.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        freq /= config.factor;
        break;
      case RopeScaling::kLlama3: {
        // Long wavelengths are stretched by `factor`, short ones kept, and those between blended.
        const double wavelength = pi2 / freq;
        const double low = config.original_max_position_embeddings / config.low_freq_factor;
        const double high = config.original_max_position_embeddings / config.high_freq_factor;
        if (wavelength > low) {
          freq /= config.factor;
        } else if (wavelength >= high) {
          const double smooth =
              (config.original_max_position_embeddings / wavelength - config.low_freq_factor) /
              (config.high_freq_factor - config.low_freq_factor);
          freq = (1.0 - smooth) * freq / config.factor + smooth * freq;
        }
        break;
      }
      case RopeScaling::kYarn: {
        const double share = YarnShare(config, rotary_dim, i);
        freq = (1.0 - share) * freq / config.factor + share * freq;
        break;
      }
    }
    if (!config.freq_divisors.empty()) freq /= config.freq_divisors[i];
    rope.inv_freq.push_back(static_cast<float>(freq));
  }
  return rope;
}

std::optional<kernels::Activation> ActivationByName(const std::string& name) {
  static constexpr std::pair<const char*, kernels::Activation> kNames[] = {
      {"silu", kernels::Activation::kSilu},
      {"swish", kernels::Activation::kSilu},
      {"gelu", kernels::Activation::kGelu},
      {"gelu_new", kernels::Activation::kGeluTanh},
      {"gelu_fast", kernels::Activation::kGeluTanh},
      {"relu", kernels::Activation::kRelu},
      {"gelu_pytorch_tanh", kernels::Activation::kGeluTanh},
  };
  for (const auto& [known, activation] : kNames) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

}  // namespace hydrant::engine
