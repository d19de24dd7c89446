// Keys and values that are quantised in groups of channels (KvDType int4 and kivi2), as they lie in
// a block. A slot's bytes are its own, so that slots can be written from several threads.
//
//   keys    a byte of each of the 16 slots in turn, [key_slot_bytes][16], over the channels: 4 bits
//           are two channels a byte, the even one low; 6 bits are four channels in three bytes, the
//           first three in the lower six bits, the fourth in the upper two, its low bits first
//   ranges  of the keys: [groups][scale, zero][16] bf16
//   values  [16][value_slot_bytes]: sixteen bytes hold 16 * (8 / bits) channels, byte i those that
//           are i modulo 16, the first lowest. The last sixteen bytes may be partly unused
//   ranges  of the values: [16][groups][scale, zero] bf16

#ifndef HYDRANT_KERNELS_CPU_ISA_GROUPED_H_
#define HYDRANT_KERNELS_CPU_ISA_GROUPED_H_

#include <stdint.h>

#include "kernels/group_range.h"

namespace hydrant::kernels::cpu {

// Channels of a group: kKvGroupChannels.
static constexpr int32_t kKvGroup = 32;

// Bytes of one slot's key and value.
static constexpr int32_t KeySlotBytes(int32_t head_dim, int32_t bits) {
  return bits == 4 ? (head_dim + 1) / 2 : (head_dim + 3) / 4 * 3;
}
static constexpr int32_t ValueSlotBytes(int32_t head_dim, int32_t bits) {
  const int32_t channels = 16 * (8 / bits);
  return (head_dim + channels - 1) / channels * 16;
}

// The level of channel d of a slot; byte_at(i) is byte i of the slot's key or value.
template <typename ByteAt>
static int32_t KeyLevel(const ByteAt& byte_at, int32_t d, int32_t bits) {
  if (bits == 4) return byte_at(d / 2) >> d % 2 * 4 & 15;
  const int32_t unit = d / 4 * 3;
  if (d % 4 < 3) return byte_at(unit + d % 4) & 63;
  return byte_at(unit) >> 6 | byte_at(unit + 1) >> 6 << 2 | byte_at(unit + 2) >> 6 << 4;
}
template <typename ByteAt>
static int32_t ValueLevel(const ByteAt& byte_at, int32_t d, int32_t bits) {
  const int32_t per_byte = 8 / bits;
  const int32_t byte = byte_at(d / (16 * per_byte) * 16 + d % 16);
  return byte >> d / 16 % per_byte * bits & ((1 << bits) - 1);
}

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_ISA_GROUPED_H_
