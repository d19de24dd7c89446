// The requests of a measurement, by number.

#ifndef HYDRANT_SERVER_BENCH_REQUEST_SOURCE_H_
#define HYDRANT_SERVER_BENCH_REQUEST_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "hydrant/v1/generation.pb.h"
#include "server/bench/random.h"
#include "server/bench/trace.h"

namespace hydrant::server::bench {

struct Range {
  int32_t min = 0, max = 0;  // both included

  int32_t Draw(Random& random) const {
    return min + static_cast<int32_t>(random.Below(uint64_t(max) - min + 1));
  }
};

// Token ids to draw prompts from: a vocabulary without the tokens that end a sequence.
class Vocabulary {
 public:
  // INVALID_ARGUMENT when nothing is left.
  static absl::StatusOr<Vocabulary> Make(int32_t size, std::vector<int32_t> without);
  int32_t Draw(Random& random) const;

 private:
  int32_t size_ = 0;
  std::vector<int32_t> without_;  // sorted, distinct, within size_
};

// What all requests have in common. `message` holds everything but input, max_tokens and, when it
// draws (temperature above 0), the seed: that is made from `seed` and the request's number.
struct RequestTemplate {
  v1::GenerateRequest message;
  Range max_tokens;
  uint64_t seed = 0;
};

class RequestSource {
 public:
  virtual ~RequestSource() = default;
  // Number 0, 1, … and the warm-up's -1, -2, …; a function of the number alone.
  virtual v1::GenerateRequest Make(int64_t number) const = 0;
};

// Prompts of random tokens, no two alike.
std::unique_ptr<RequestSource> RandomPrompts(RequestTemplate common, Vocabulary vocabulary,
                                             Range prompt_tokens);

// Pieces of a text's tokens, one after another; from the beginning again after the last.
// INVALID_ARGUMENT when there are fewer than one prompt needs.
absl::StatusOr<std::unique_ptr<RequestSource>> CutPrompts(RequestTemplate common,
                                                          std::vector<uint32_t> tokens,
                                                          Range prompt_tokens);

// A trace's requests in order, from the beginning again after the last, with other random tokens.
// Not empty.
std::unique_ptr<RequestSource> TracePrompts(RequestTemplate common, Vocabulary vocabulary,
                                            std::vector<TraceRequest> trace);

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_REQUEST_SOURCE_H_
