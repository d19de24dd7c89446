// A backend at the shapes of a model of 8 G parameters, beside what its memory gives in the same
// run: one JSON object on standard output.
//   device_bench [cuda | cpu] [small]
// `small` takes shapes of a few numbers, to see that it runs. The decode steps run one layer's
// weights and one layer's cache as often as the model has layers: both exceed a GPU's caches by
// far, but for the smallest batch's cache of a fifth.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/check.h"
#include "tests/bench/attended.h"

namespace hydrant::bench {
namespace {

using kernels::Buffer;
using kernels::KvDType;
using kernels::Matrix;
using kernels::PackedMatrix;
using kernels::WeightDType;

struct Shape {
  int64_t hidden, ffn, vocabulary, streamed;
  int layers, context, sequences;
  kernels::AttentionShape attention;
  std::vector<int> batches;
};
const Shape kLarge{
    4096, 14336, 128256, int64_t{1} << 28, 32, 4096, 64, {32, 8, 128, 0.088f}, {1, 16, 64, 256}};
const Shape kSmall{64, 128, 256, 1 << 12, 2, 80, 2, {4, 2, 16, 0.25f}, {1, 3}};

class Bench {
 public:
  Bench(Backend& backend, const Shape& shape)
      : backend_(backend), shape_(shape), one_(backend.Allocate(sizeof(float))) {}

  void Run() {
    std::printf("{\"backend\": \"%s\"", std::string(backend_.name()).c_str());
    Stream();
    for (const WeightDType dtype : {WeightDType::kBF16, WeightDType::kInt8, WeightDType::kInt4}) {
      Linear(dtype);
    }
    for (const KvDType dtype : {KvDType::kBF16, KvDType::kInt8}) {
      for (const bool scores : {false, true}) DecodeAttention(dtype, scores);
    }
    for (const bool scores : {false, true}) PrefillAttention(scores);
    for (const bool h2o : {false, true}) DecodeSteps(h2o);
    std::printf("}\n");
  }

 private:
  // Seconds of one call, once it has been called.
  template <typename Function>
  double Seconds(const Function& function) {
    constexpr double kEnough = 0.3;
    function();
    for (int calls = 1;; calls *= 2) {
      backend_.HostRows({one_.data(), 1, 1});  // waits for what came before
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) function();
      backend_.HostRows({one_.data(), 1, 1});
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (seconds > kEnough) return seconds / calls;
    }
  }

  static void Tell(const std::string& name, double value) {
    std::printf(", \"%s\": %.4g", name.c_str(), value);
    std::fflush(stdout);
  }

  // y += x: two numbers read and one written.
  void Stream() {
    const int64_t count = shape_.streamed;
    const Buffer x = backend_.Allocate(count * sizeof(float));
    const Buffer y = backend_.Allocate(count * sizeof(float));
    const double seconds = Seconds([&] {
      backend_.Add({x.data(), 1, count}, {y.data(), 1, count});
    });
    Tell("stream_gb_per_s", 3.0 * sizeof(float) * count / seconds / 1e9);
  }

  std::unique_ptr<PackedMatrix> Pack(int64_t outputs, int64_t inputs, WeightDType dtype) {
    const auto read = [inputs](int64_t row, float* out) {
      for (int64_t i = 0; i < inputs; ++i) out[i] = Noise(row * inputs + i) / 64;
    };
    auto packed = backend_.Pack({outputs, inputs, read}, dtype);
    HYDRANT_CHECK(packed.ok());
    return *std::move(packed);
  }

  void Linear(WeightDType dtype) {
    const int64_t outputs = 2 * shape_.ffn;
    const auto w = Pack(outputs, shape_.hidden, dtype);
    for (const int64_t rows : {1, 4, 16, 64, 512}) {
      backend_.Reserve(static_cast<int>(rows), shape_.hidden, 16, shape_.attention);
      const Buffer x = Fill(backend_, rows * shape_.hidden);
      const Buffer y = backend_.Allocate(rows * outputs * sizeof(float));
      const double seconds = Seconds([&] {
        backend_.Linear({x.data(), rows, shape_.hidden}, *w, nullptr, false,
                        {y.data(), rows, outputs});
      });
      const std::string name = "linear_" + std::string(kernels::WeightDTypeName(dtype)) + "_rows_" +
                               std::to_string(rows);
      if (rows <= 16) Tell(name + "_gb_per_s", static_cast<double>(w->bytes()) / seconds / 1e9);
      Tell(name + "_tflops", 2e-12 * rows * outputs * shape_.hidden / seconds);
    }
  }

  void DecodeAttention(KvDType dtype, bool scores) {
    Attended a(backend_, 1, shape_.sequences, 1, shape_.context, scores, dtype, shape_.attention,
               shape_.hidden);
    const double seconds =
        Seconds([&] { backend_.Attention(a.batch, a.shape, 0, a.qkv, *a.store, a.out); });
    const kernels::KvBits bits = kernels::KvBitsOf(dtype);
    const double bytes = (bits.key + bits.value) / 8.0 * a.shape.head_dim * a.shape.kv_heads *
                         shape_.sequences * shape_.context;
    Tell("decode_attention_" + std::string(kernels::KvDTypeName(dtype)) +
             (scores ? "_with_scores" : "") + "_gb_per_s",
         bytes / seconds / 1e9);
  }

  void PrefillAttention(bool scores) {
    const int rows = shape_.context;
    Attended a(backend_, 1, 1, rows, rows, scores, KvDType::kBF16, shape_.attention, shape_.hidden);
    const double seconds =
        Seconds([&] { backend_.Attention(a.batch, a.shape, 0, a.qkv, *a.store, a.out); });
    Tell(std::string("prefill_attention") + (scores ? "_with_scores" : "") + "_tflops",
         2e-12 * rows * rows * a.out_cols() / seconds);
  }

  // Of batches that hold all of their context, or a fifth of it with scores and eviction.
  void DecodeSteps(bool h2o) {
    const int64_t hidden = shape_.hidden, ffn = shape_.ffn;
    const int kv_heads = shape_.attention.kv_heads, head_dim = shape_.attention.head_dim;
    const int64_t width = int64_t{shape_.attention.heads} * head_dim;
    const auto qkv = Pack(width + int64_t{2} * kv_heads * head_dim, hidden, WeightDType::kBF16);
    const auto output = Pack(hidden, width, WeightDType::kBF16);
    const auto up = Pack(2 * ffn, hidden, WeightDType::kBF16);
    const auto down = Pack(hidden, ffn, WeightDType::kBF16);
    const auto head = Pack(shape_.vocabulary, hidden, WeightDType::kBF16);
    const Buffer norm = Fill(backend_, hidden);
    const int slots = h2o ? (shape_.context / 5 + 15) / 16 * 16 : shape_.context;
    const kernels::EvictionPolicy policy{4, slots / 2, slots - slots / 2 - 5};
    for (const int rows : shape_.batches) {
      Attended a(backend_, 1, rows, 1, slots, h2o, KvDType::kBF16, shape_.attention, ffn);
      const Buffer x_values = Fill(backend_, rows * hidden);
      const Buffer normed_values = Fill(backend_, rows * hidden);
      const Buffer wide_values = Fill(backend_, rows * 2 * ffn);
      const Buffer active_values = Fill(backend_, rows * ffn);
      const Buffer logit_values = backend_.Allocate(rows * shape_.vocabulary * sizeof(float));
      const Matrix x{x_values.data(), rows, hidden}, normed{normed_values.data(), rows, hidden};
      const Matrix wide{wide_values.data(), rows, 2 * ffn};
      const Matrix active{active_values.data(), rows, ffn};
      const Matrix logits{logit_values.data(), rows, shape_.vocabulary};
      // Each step's token takes the last one's place, so that all steps are alike.
      const std::vector<int32_t> holes(kv_heads, slots - 1);
      std::vector<int32_t> victims(rows * kv_heads);
      std::vector<kernels::EvictionItem> items;
      for (int i = 0; i < rows; ++i) {
        a.batch.sequences[i].holes = holes.data();
        items.push_back({policy, slots, slots - 1, a.batch.sequences[i].blocks,
                         victims.data() + i * kv_heads, nullptr});
      }
      std::vector<kernels::TokenDraw> draws(rows);
      for (int i = 0; i < rows; ++i) draws[i].row = i;
      std::vector<int32_t> tokens(rows);
      const double seconds = Seconds([&] {
        for (int layer = 0; layer < shape_.layers; ++layer) {
          backend_.RmsNorm(x, norm, 1e-5f, normed);
          backend_.Linear(normed, *qkv, nullptr, false, a.qkv);
          backend_.RopeAndStore(a.batch, a.shape, 0, {nullptr, rows, 0}, a.qkv, 0, *a.store);
          backend_.Attention(a.batch, a.shape, 0, a.qkv, *a.store, a.out);
          backend_.Linear(a.out, *output, nullptr, false, x);
          backend_.RmsNorm(x, norm, 1e-5f, normed);
          backend_.Linear(normed, *up, nullptr, false, wide);
          backend_.GatedActivation(kernels::Activation::kSilu, wide, active);
          backend_.Linear(active, *down, nullptr, false, x);
        }
        backend_.Linear(x, *head, nullptr, false, logits);
        backend_.Sample(logits, draws, tokens);
        if (h2o) backend_.Evict(items, *a.store);
      });
      Tell((h2o ? "decode_h2o_tokens_per_s_batch_" : "decode_full_tokens_per_s_batch_") +
               std::to_string(rows),
           rows / seconds);
    }
  }

  Backend& backend_;
  const Shape& shape_;
  const Buffer one_;
};

int Main(int argc, char** argv) {
  bool cpu = false, small = false;
  for (int i = 1; i < argc; ++i) {
    cpu |= std::strcmp(argv[i], "cpu") == 0;
    small |= std::strcmp(argv[i], "small") == 0;
  }
  auto backend = cpu ? kernels::CreateCpuBackend({}) : kernels::CreateCudaBackend();
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", std::string(backend.status().message()).c_str());
    return 1;
  }
  Bench(**backend, small ? kSmall : kLarge).Run();
  return 0;
}

}  // namespace
}  // namespace hydrant::bench

int main(int argc, char** argv) { return hydrant::bench::Main(argc, argv); }
