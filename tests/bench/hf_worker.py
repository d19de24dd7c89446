"""Hugging Face transformers on the same GGUF in bf16: reads one JSON workload a line from standard
input ({"prompts": [[ids]], "max_tokens": n}), generates greedily without stopping, and answers each
with {"seconds": s}."""

import json
import pathlib
import sys
import time

import torch
from transformers import AutoModelForCausalLM

path = pathlib.Path(sys.argv[1])
torch.set_num_threads(int(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(
    path.parent, gguf_file=path.name, dtype=torch.bfloat16
).eval()
print(json.dumps({"ready": torch.__version__}), flush=True)
for line in sys.stdin:
    work = json.loads(line)
    prompts = torch.tensor(work["prompts"])
    begin = time.perf_counter()
    with torch.no_grad():
        model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=work["max_tokens"],
            min_new_tokens=work["max_tokens"],
            do_sample=False,
        )
    print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
