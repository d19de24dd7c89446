"""Hugging Face transformers, generating greedily: JSON arguments in, {"seconds": [...]} out."""

import json
import pathlib
import sys
import time

import torch
import transformers

from random_prompts import random_prompts

arguments = json.loads(sys.argv[1])
path = pathlib.Path(arguments["model"])
torch.set_num_threads(arguments["threads"])
model = transformers.AutoModelForCausalLM.from_pretrained(
    path.parent, gguf_file=path.name, dtype=getattr(torch, arguments["dtype"])
).eval()


def run(seed, generated):
    prompts = torch.tensor(random_prompts(arguments["prompt"], arguments["concurrency"], seed))
    begin = time.perf_counter()
    with torch.no_grad():
        model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=generated,
            min_new_tokens=generated,
            do_sample=False,
        )
    return time.perf_counter() - begin


run(0, min(arguments["generated"], 8))
print(
    json.dumps(
        {
            "version": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "seconds": [
                run(repeat, arguments["generated"])
                for repeat in range(1, arguments["repeats"] + 1)
            ],
        }
    )
)
