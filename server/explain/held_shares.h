// Held positions counted two ways: for each token over all layers and KV heads, and for each layer
// over stretches of the text.

#ifndef HYDRANT_SERVER_EXPLAIN_HELD_SHARES_H_
#define HYDRANT_SERVER_EXPLAIN_HELD_SHARES_H_

#include <cstdint>
#include <vector>

#include "engine/request.h"

namespace hydrant::server {

// How many (layer, KV head) pairs hold each of the positions [0, tokens). `held` has no other.
std::vector<int32_t> PairsHolding(const engine::HeldTokens& held, int32_t tokens);

struct HeatMap {
  int32_t tokens_per_column = 1;
  int32_t columns = 0;
  std::vector<double> shares;  // [layers, columns]: of the KV heads times the column's tokens
};
// `tokens` positions in `max_columns` columns at the most, all but the last of the same width.
HeatMap BinHeld(const engine::HeldTokens& held, int32_t tokens, int32_t max_columns);

// The shade of a share, 0 to kShades. None and all have a shade of their own.
inline constexpr int kShades = 10;
int Shade(double share);

}  // namespace hydrant::server

#endif  // HYDRANT_SERVER_EXPLAIN_HELD_SHARES_H_
