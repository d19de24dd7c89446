// The kernels of one instruction set; compiled once for each (see CMakeLists.txt).

#include "kernels/cpu/isa/amx_int8.h"
#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/linear.h"
#include "kernels/cpu/isa/quantize.h"
#include "kernels/cpu/isa/recall.h"
#include "kernels/cpu/isa/rows.h"
#include "kernels/cpu/isa/victim.h"

#define HYDRANT_STRING(name) #name
#define HYDRANT_STRING_OF(name) HYDRANT_STRING(name)

namespace hydrant::kernels::cpu::HYDRANT_ISA {

const KernelTable kTable = {
    .name = HYDRANT_STRING_OF(HYDRANT_ISA),
    .tile_rows = kTileRows,
    .int8_flip = kInt8Flip,
    .strip_rows = kStripRows,
    .bf16_bytes = sizeof(NarrowF),
    .has_amx = kHaveAmx,
    .round_bf16 = RoundRowBF16,
    .prepare_bf16 = PrepareBF16,
    .quantize = Quantize,
    .linear_f32 = RunTiles<F32Step>,
    .linear_bf16 = RunTiles<BF16Step>,
    .linear_int8 = RunInt8,
    .attend_keys_f32 = AttendKeys<F32Kv>,
    .attend_keys_bf16 = AttendKeys<BF16Kv>,
    .attend_keys_int8 = AttendKeys<Int8Kv>,
    .attend_values_f32 = AttendValues<F32Kv>,
    .attend_values_bf16 = AttendValues<BF16Kv>,
    .attend_values_int8 = AttendValues<Int8Kv>,
    .add_scores = AddScores,
    .sum_evicted = SumEvicted<>,
    .rotate_heads = RotateHeads,
    .store_slot_f32 = StoreSlotF32,
    .store_slot_bf16 = StoreSlotBF16,
    .store_slot_int8 = StoreSlotInt8,
    .rms_norm = RmsNorm,
    .layer_norm = LayerNorm,
    .add_row = AddRow,
    .silu = SiluRow,
    .gelu = GeluRow,
    .gelu_tanh = GeluTanhRow,
    .relu = ReluRow,
    .gated_silu = GatedSilu,
    .gated_gelu = GatedGelu,
    .gated_gelu_tanh = GatedGeluTanh,
    .gated_relu = GatedRelu,
    .scale_row = ScaleRow,
    .find_victim = FindVictim,
};

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA
