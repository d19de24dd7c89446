// The kernels of one instruction set; compiled once for each (see CMakeLists.txt).

#include "kernels/cpu/isa/amx_attention.h"
#include "kernels/cpu/isa/amx_int8.h"
#include "kernels/cpu/isa/amx_int8_attention.h"
#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/isa/int4_linear.h"
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
    .strip_rows = {kStripRows, kBF16StripRows, kInt8StripRows, kStripRows, kStripRows},
    .bf16_bytes = sizeof(NarrowF),
    .round_bf16 = RoundRowBF16,
    .prepare_bf16 = PrepareBF16,
    .quantize = Quantize,
    .quantize_groups = QuantizeXGroups,
    .linear_f32 = RunTiles<F32Step>,
    .linear_bf16 = RunTiles<BF16Step>,
    .linear_int8 = RunInt8,
    .linear_int4 = RunTiles<Int4Step>,
    .attend_keys = {AttendKeys<F32Kv>, kAttendKeysBF16, kAttendKeysInt8,
                    AttendKeys<GroupedKv<6, 4>>, AttendKeys<GroupedKv<4, 2>>},
    .attend_values = {AttendValues<F32Kv>, kAttendValuesBF16, kAttendValuesInt8,
                      AttendValues<GroupedKv<6, 4>>, AttendValues<GroupedKv<4, 2>>},
    .add_scores = AddScores,
    .sum_evicted = SumEvicted,
    .rotate_heads = RotateHeads,
    .store_slot = {StoreSlotF32, StoreSlotBF16, StoreSlotInt8, StoreSlotGrouped<6, 4>,
                   StoreSlotGrouped<4, 2>},
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
