#!/usr/bin/env python3
"""Writes a LLaMA checkpoint of random bf16 weights as a Hugging Face directory, for measurements that
depend on shapes only. Needs numpy.

  tests/bench/random_checkpoint.py --shape=1b OUT            # 1.24 G parameters, 2.5 GB
  tests/bench/random_checkpoint.py --shape=135m --context=65536 OUT
"""

import argparse
import json
import pathlib
import shutil
import struct

import numpy as np

TOKENIZER = pathlib.Path(__file__).resolve().parents[1] / "data" / "golden" / "llama-gqa"
SHAPES = {
    # hidden, feed-forward, layers, heads, KV heads, vocabulary
    "135m": (576, 1536, 30, 9, 3, 49152),
    "1b": (2048, 8192, 16, 32, 8, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128256),
}
HEAD_DIM = {"135m": 64, "1b": 64, "8b": 128}


def tensors(shape):
    hidden, ffn, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    q, kv = heads * HEAD_DIM[shape], kv_heads * HEAD_DIM[shape]
    yield "model.embed_tokens.weight", (vocabulary, hidden)
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,)
        yield layer + "self_attn.q_proj.weight", (q, hidden)
        yield layer + "self_attn.k_proj.weight", (kv, hidden)
        yield layer + "self_attn.v_proj.weight", (kv, hidden)
        yield layer + "self_attn.o_proj.weight", (hidden, q)
        yield layer + "post_attention_layernorm.weight", (hidden,)
        yield layer + "mlp.gate_proj.weight", (ffn, hidden)
        yield layer + "mlp.up_proj.weight", (ffn, hidden)
        yield layer + "mlp.down_proj.weight", (hidden, ffn)
    yield "model.norm.weight", (hidden,)


def bf16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="1b")
    parser.add_argument("--context", type=int, default=8192)
    args = parser.parse_args()

    hidden, ffn, layers, heads, kv_heads, vocabulary = SHAPES[args.shape]
    args.out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, args.out / name)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_DIM[args.shape],
        "vocab_size": vocabulary,
        "max_position_embeddings": args.context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }
    (args.out / "config.json").write_text(json.dumps(config, indent=2))

    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, dims in tensors(args.shape):
        size = 2 * int(np.prod(dims))
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # Random numbers are dear and nothing here depends on which ones they are: one pool, cut anew.
    pool = np.random.default_rng(0).standard_normal(1 << 22)
    with open(args.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, (_, dims) in enumerate(tensors(args.shape)):
            if len(dims) == 1:
                file.write(bf16(np.ones(dims)).tobytes())
                continue
            values = bf16(np.roll(pool, 7919 * number) * (0.7 / dims[1] ** 0.5))
            count = int(np.prod(dims))
            for first in range(0, count, len(values)):
                file.write(values[: count - first].tobytes())


if __name__ == "__main__":
    main()
