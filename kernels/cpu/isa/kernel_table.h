// The kernels that are compiled once per instruction set, as a table of functions chosen at start.
// Plain pointers and counts only: the callers in kernels/cpu/ check shapes and share out the work.

#ifndef HYDRANT_KERNELS_CPU_ISA_KERNEL_TABLE_H_
#define HYDRANT_KERNELS_CPU_ISA_KERNEL_TABLE_H_

#include <stdint.h>

namespace hydrant::kernels::cpu {

// The most query rows (of one KV head's group, over one or more tokens) that a strip shares key and
// value loads between.
inline constexpr int kMaxStripRows = 16;

// Of KvDType, in whose order the kernels stand.
inline constexpr int kKvDTypeCount = 5;

// y = x W^T for one packed matrix. Weights lie in tiles of KernelTable::tile_rows output rows:
//   f32   [cols][tile_rows]
//   bf16  [cols / 2][tile_rows][2], cols rounded up to even
//   int8  [cols / 4][tile_rows][4], cols rounded up to 64; the bytes are the values ^ int8_flip
//   int4  [cols / 32][tile_rows / 16] of what int4_layout.h says, cols rounded up to 32
struct LinearArgs {
  const uint8_t* weights;
  int64_t tile_bytes;
  int64_t rows;          // outputs
  int64_t cols;          // inputs, as padded in the tiles
  const float* w_scale;  // int8: [rows]
  const float* bias;     // [rows] or null
  bool accumulate;       // add to y
  // Activations as Prepare* below leaves them (f32: as they are), with memory for rows up to the
  // next multiple of 16.
  const uint8_t* x;
  int64_t x_stride;      // bytes from a row to the next
  const float* x_scale;  // int8: one per row
  const int32_t* x_sum;  // int8: sum of each row's quantised values
  float* y;
  int64_t y_stride;  // elements
};

// Where a block of one layer and KV head has what, in bytes from its begin; its keys come first.
// The layouts are described in kv_readers.h.
struct BlockOffsets {
  int64_t key_scales;
  int64_t values;
  int64_t value_scales;
};

// One pass over a sequence's slots for up to kMaxStripRows query rows of one layer and KV head.
struct StripArgs {
  const uint8_t* kv;    // the layer and head's blocks
  int64_t block_bytes;  // from a block to the next
  BlockOffsets at;
  const int32_t* blocks;  // block ids of the sequence
  int32_t head_dim;
  int32_t hadamard_block;    // of HadamardRotate(head_dim): quantization.h
  float hadamard_normalise;  // 1 / sqrt(hadamard_block)
  float scale;
  int32_t count;  // query rows
  const float* query[kMaxStripRows];
  float* out[kMaxStripRows];
  int32_t limit[kMaxStripRows];  // slots [0, limit) are attended to; never descending
  // Sliding windows only: positions of the layer and head (by physical slot), and the first
  // position that each row sees. Null: all.
  const int32_t* positions;
  int32_t first_visible[kMaxStripRows];
  bool keep_probabilities;  // AddScores follows
  // Scratch, 64-byte aligned, for as many rows as the table's highest strip: [rows][stride] of f32,
  // the same of bf16 or f32, and [rows][head_dim rounded up to 16] f32.
  int64_t stride;  // a multiple of 64, at least the largest limit
  float* probabilities;
  void* narrow;
  float* query_scratch;
  // Blocks that this thread is likely to attend to next, in their order, to be asked for before.
  const uint8_t* next_kv;
  const int32_t* next_blocks;
  int32_t next_count;
  // Set by AttendKeys: the scaled score that the softmax's terms are counted from, and one over
  // their sum.
  float reference[kMaxStripRows];
  float inverse_sum[kMaxStripRows];
};

// Evicted keys of the layer and KV head of a strip's rows, in the layout of kernels/recall.h.
struct EvictedArgs {
  const uint8_t* const* blocks;
  uint64_t offset;  // of the layer and head's strip in a block
  int32_t count;    // keys, at least 1
  bool windowed;    // rows see from StripArgs::first_visible on
};

// One token's key and value on their way into a slot. They may be rotated where they lie.
struct SlotArgs {
  float* key;  // [head_dim]
  float* value;
  int32_t head_dim;
  int32_t hadamard_block;
  float hadamard_normalise;
  uint8_t* block;
  BlockOffsets at;
  int32_t place;  // of the slot in its block
};

struct VictimArgs {
  const float* scores;  // of the layer and head, by physical slot
  const int32_t* positions;
  const int32_t* blocks;
  int32_t num_slots;
  int32_t sink_end;      // positions below are protected
  int32_t recent_begin;  // positions from here on are protected
  int32_t expired_end;   // positions below have left the layer's window
};

// y = act(gate) * up, n of each.
using GateKernel = void(const float* gate, const float* up, int64_t n, float* y);

struct KernelTable {
  const char* name;
  int32_t tile_rows;
  uint8_t int8_flip;
  int32_t strip_rows[kKvDTypeCount];  // the best number of rows in a strip, <= kMaxStripRows
  int32_t bf16_bytes;  // of one bf16 activation as PrepareBF16 leaves it: 2, or 4 where f32 is used

  // Activations and weights.
  void (*round_bf16)(const float* x, int64_t cols, int64_t padded, uint16_t* out);
  void (*prepare_bf16)(const float* x, int64_t cols, int64_t padded, void* out);
  // Rotates x [cols] by Hadamard blocks into scratch, quantises that into out [padded] (zeros past
  // cols) and returns the scale; *sum is the sum of the values.
  float (*quantize)(const float* x, int64_t cols, int64_t padded, int32_t block, float normalise,
                    float* scratch, int8_t* out, int32_t* sum);
  // The activations of int4_layout.h, of x [cols].
  void (*quantize_groups)(const float* x, int64_t cols, void* out);

  // Tiles [tile_begin, tile_end), activation rows [row_begin, row_end).
  void (*linear_f32)(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                     int64_t row_begin, int64_t row_end);
  void (*linear_bf16)(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                      int64_t row_begin, int64_t row_end);
  void (*linear_int8)(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                      int64_t row_begin, int64_t row_end);
  void (*linear_int4)(const LinearArgs& args, int64_t tile_begin, int64_t tile_end,
                      int64_t row_begin, int64_t row_end);

  // Attention of a strip, in this order: keys and softmax, values, then (in turn) the scores.
  void (*attend_keys[kKvDTypeCount])(StripArgs& args);  // by KvDType
  void (*attend_values[kKvDTypeCount])(const StripArgs& args);
  void (*add_scores)(const StripArgs& args, float* scores);
  // For each row the sum of exp(scaled score) over evicted keys, as sum * exp(largest). Overwrites
  // query_scratch.
  void (*sum_evicted)(const StripArgs& args, const EvictedArgs& evicted, float* largest,
                      float* sum);

  // One row's head(s). Rotates [heads][head_dim] in place.
  void (*rotate_heads)(float* x, int64_t heads, int64_t head_dim, int64_t half, const float* cos,
                       const float* sin);
  // One slot of one layer and head, by KvDType.
  void (*store_slot[kKvDTypeCount])(const SlotArgs& args);

  // Rows.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t cols, float* y);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps,
                     int64_t cols, float* y);
  void (*add_row)(const float* x, int64_t n, float* y);
  void (*silu)(float* x, int64_t n);
  void (*gelu)(float* x, int64_t n);
  void (*gelu_tanh)(float* x, int64_t n);
  void (*relu)(float* x, int64_t n);
  GateKernel* gated_silu;
  GateKernel* gated_gelu;
  GateKernel* gated_gelu_tanh;
  GateKernel* gated_relu;
  void (*scale_row)(float* x, int64_t n, float factor);

  // The slot to evict (see Backend::Evict), or -1 where every slot is protected.
  int32_t (*find_victim)(const VictimArgs& args);
};

namespace amx {
extern const KernelTable kTable;
}
namespace avx512bf16 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}
namespace avx2 {
extern const KernelTable kTable;
}
namespace portable {
extern const KernelTable kTable;
}

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_ISA_KERNEL_TABLE_H_
