"""Writes quantized_blocks.gguf: random blocks of every quantised type that Hydrant reads, and beside
each its values as the Python package `gguf` (0.19.0) dequantises them.

    pip install gguf==0.19.0 && python make_quantized_blocks.py quantized_blocks.gguf
"""

import sys

import gguf
import numpy as np

ROWS, BLOCK_VALUES = 3, 256

# Where a block keeps its f16 scales: random bytes there would give infinities and NaNs.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}


def blocks(name, random):
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    data = random.integers(0, 256, (ROWS * BLOCK_VALUES // values, size), dtype=np.uint8)
    for offset in SCALES[name]:
        scale = random.uniform(-4, 4, len(data)).astype(np.float16)
        scale[0] = np.float16(3e-7)  # a subnormal
        data[:, offset:offset + 2] = scale.view(np.uint8).reshape(-1, 2)
    return data.reshape(ROWS, -1)


def main(path):
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "blocks")
    for name in SCALES:
        qtype = gguf.GGMLQuantizationType[name]
        data = blocks(name, random)
        writer.add_tensor(name, data, raw_dtype=qtype)
        writer.add_tensor(f"{name}.values", gguf.dequantize(data, qtype).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(sys.argv[1])
