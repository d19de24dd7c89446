"""OpenVINO GenAI's continuous batching: JSON arguments in, {"seconds": [...]} out."""

import json
import sys
import time

import numpy
import openvino
import openvino_genai

from random_prompts import random_prompts

arguments = json.loads(sys.argv[1])
TRIAL_BLOCKS = 16


def make_pipeline(num_kv_blocks):
    """None: 4 GB."""
    config = openvino_genai.SchedulerConfig()
    if num_kv_blocks is None:
        config.cache_size = 4
    else:
        config.num_kv_blocks = num_kv_blocks
    config.dynamic_split_fuse = True
    config.max_num_batched_tokens = 512
    config.max_num_seqs = 64
    if arguments["kept_tokens"]:
        kept = arguments["kept_tokens"]
        config.use_cache_eviction = True
        config.cache_eviction_config = openvino_genai.CacheEvictionConfig(
            start_size=32,
            recent_size=kept // 2 // 32 * 32,
            max_cache_size=kept,
            aggregation_mode=openvino_genai.AggregationMode.SUM,
            apply_rotation=False,
        )
    return openvino_genai.ContinuousBatchingPipeline(
        arguments["model"], config, "CPU", {"INFERENCE_NUM_THREADS": arguments["threads"]}
    )


def blocks_within(kv_bytes):
    """How many blocks fit, by what a few of them take."""
    pipeline = make_pipeline(TRIAL_BLOCKS)
    run(pipeline, 0, prompt=8, generated=2, concurrency=1)
    return kv_bytes * TRIAL_BLOCKS // pipeline.get_metrics().kv_cache_size_in_bytes


def run(pipeline, seed, prompt, generated, concurrency):
    greedy = openvino_genai.GenerationConfig()
    greedy.max_new_tokens = generated
    greedy.ignore_eos = True
    greedy.do_sample = False
    prompts = random_prompts(prompt, concurrency, seed)
    begin = time.perf_counter()
    handles = [
        pipeline.add_request(number, openvino.Tensor(numpy.array([ids], dtype=numpy.int64)), greedy)
        for number, ids in enumerate(prompts)
    ]
    while pipeline.has_non_finished_requests():
        pipeline.step()
    seconds = time.perf_counter() - begin
    counts = [len(handle.read_all()[0].generated_ids) for handle in handles]
    assert counts == [generated] * len(prompts), counts
    return seconds


size = {key: arguments[key] for key in ("prompt", "generated", "concurrency")}
pipeline = make_pipeline(blocks_within(arguments["kv_bytes"]) if arguments["kv_bytes"] else None)
run(pipeline, 0, **{**size, "generated": min(size["generated"], 8)})
seconds = [run(pipeline, repeat, **size) for repeat in range(1, arguments["repeats"] + 1)]
version = f"openvino-genai {openvino_genai.__version__}"
print(json.dumps({"version": version, "seconds": seconds}))
