"""Writes what Hugging Face transformers makes of a GGUF file or a model directory, for golden_check:
token ids of each prompt, 32 greedy tokens after them that ignore the end of sequence, the
log-probability of each prompt token, and how far ahead of the second each greedy token was.
Weights are dequantised to float32, and all arithmetic is float32.

    python make_golden.py MODEL OUT.json PROMPT.txt...

Needs torch, transformers, gguf and sentencepiece.
"""

import json
import os
import sys

import torch
import transformers

NEW_TOKENS = 32


def load(path):
    where, extra = path, {}
    if os.path.isfile(path):
        where, extra = os.path.dirname(os.path.abspath(path)), {"gguf_file": os.path.basename(path)}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        where, dtype=torch.float32, attn_implementation="eager", **extra)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(where, **extra)


@torch.no_grad()
def golden(model, ids):
    cache = None
    step = torch.tensor([ids])
    greedy, margins = [], []
    for _ in range(NEW_TOKENS):
        out = model(step, past_key_values=cache, use_cache=True)
        if cache is None:
            logprobs = torch.log_softmax(out.logits[0, :-1], -1)
            prompt_logprobs = logprobs.gather(1, step[0, 1:, None])[:, 0].tolist()
        cache = out.past_key_values
        top = out.logits[0, -1].topk(2)
        greedy.append(top.indices[0].item())
        margins.append(round((top.values[0] - top.values[1]).item(), 4))
        step = top.indices[:1][None]
    return {
        "prompt_logprobs": [round(x, 4) for x in prompt_logprobs],
        "greedy_ids": greedy,
        "margins": margins,
    }


def main(model_path, out_path, *prompt_paths):
    model, tokenizer = load(model_path)
    prompts = []
    for path in prompt_paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        ids = tokenizer(text)["input_ids"]
        result = {"text": text, "prompt_ids": ids} | golden(model, ids)
        result["greedy_text"] = tokenizer.decode(result["greedy_ids"])
        print(len(ids), repr(result["greedy_text"]))
        prompts.append(result)
    with open(out_path, "w", encoding="utf-8") as file:
        source = f"transformers {transformers.__version__}, float32 arithmetic"
        json.dump({"source": source, "prompts": prompts}, file, ensure_ascii=False)
        file.write("\n")


main(*sys.argv[1:])
