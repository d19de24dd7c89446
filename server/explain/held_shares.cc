#include "server/explain/held_shares.h"

#include <algorithm>
#include <cmath>

namespace hydrant::server {

std::vector<int32_t> PairsHolding(const engine::HeldTokens& held, int32_t tokens) {
  std::vector<int32_t> pairs(tokens);
  for (int32_t position : held.positions) ++pairs[position];
  return pairs;
}

HeatMap BinHeld(const engine::HeldTokens& held, int32_t tokens, int32_t max_columns) {
  HeatMap map;
  map.tokens_per_column = std::max(1, (tokens + max_columns - 1) / max_columns);
  map.columns = (tokens + map.tokens_per_column - 1) / map.tokens_per_column;
  map.shares.resize(static_cast<size_t>(held.layers) * map.columns);
  const size_t of_layer = static_cast<size_t>(held.kv_heads) * held.count;
  for (size_t i = 0; i < held.positions.size(); ++i) {
    const size_t layer = i / of_layer;
    map.shares[layer * map.columns + held.positions[i] / map.tokens_per_column] += 1;
  }
  for (size_t i = 0; i < map.shares.size(); ++i) {
    const int32_t first = static_cast<int32_t>(i % map.columns) * map.tokens_per_column;
    const int32_t width = std::min(map.tokens_per_column, tokens - first);
    map.shares[i] /= static_cast<double>(held.kv_heads) * width;
  }
  return map;
}

int Shade(double share) {
  if (share <= 0) return 0;
  if (share >= 1) return kShades;
  return std::clamp(static_cast<int>(std::lround(share * kShades)), 1, kShades - 1);
}

}  // namespace hydrant::server
