"""Writes the fuzzers' seeds, small files that load, and their dictionaries:

    python make_corpus.py       (in this folder; needs numpy, gguf and protoc)
"""

import json
import pathlib
import struct
import subprocess

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent / "data"


def write(target, name, content):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_dictionary(target, words):
    lines = []
    for word in sorted(words):
        as_bytes = word if isinstance(word, bytes) else word.encode()
        escaped = "".join(chr(b) if chr(b).isalnum() and b < 128 or chr(b) in " _-.:"
                          else f"\\x{b:02x}" for b in as_bytes)
        lines.append(f'"{escaped}"\n')
    (HERE / f"{target}.dict").write_text("".join(lines))


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def words_of(value):
    """Keys and short strings of JSON."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from words_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from words_of(member)
    elif isinstance(value, str) and len(value) < 24 and value.isascii():
        yield value


def configs():
    words = set()
    for path in sorted(DATA.glob("golden/*/config.json")):
        config = json.loads(path.read_text())
        write("config", path.parent.name, compact(config))
        words |= set(words_of(config))
    scaling = {"type": "linear", "factor": 2.0}
    write("config", "old-scaling", compact({
        "model_type": "llama", "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 1, "rope_scaling": scaling}))
    write("config", "generation", compact({
        "eos_token_id": [1, 2], "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.1,
        "repetition_penalty": 1.1, "do_sample": True}))
    write_dictionary("config", {w for w in words if w})


def safetensors():
    def file(header, data):
        text = compact(header).encode()
        return struct.pack("<Q", len(text)) + text + data

    tensor = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    write("safetensors", "one", file({"a": tensor}, bytes(16)))
    write("safetensors", "types", file({
        "__metadata__": {"format": "pt"},
        "h": {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [6, 8]},
        "i": {"dtype": "I64", "shape": [1, 1], "data_offsets": [8, 16]},
        "empty": {"dtype": "F32", "shape": [0, 7], "data_offsets": [16, 16]}}, bytes(16)))
    names = "BOOL U8 I8 F8_E5M2 F8_E4M3 I16 U16 F16 BF16 I32 U32 F32 F64 I64 U64".split()
    write_dictionary("safetensors", {"dtype", "shape", "data_offsets", "__metadata__", *names})


def tokenizers():
    words = set()
    letters = ["<unk>", "<s>", "</s>", "H", "e", "l", "o", "Ġ", "▁", "w", "He", "ll", "<0x0A>"]
    vocab = {token: i for i, token in enumerate(letters)}
    base = {
        "added_tokens": [{"id": i, "content": letters[i], "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for i in range(3)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False,
                  "vocab": vocab, "merges": [["H", "e"], ["l", "l"]]},
    }
    seen = set()
    for case in json.loads((DATA / "tokenizer_components.json").read_text()):
        seed = base | case["patch"]
        seed["model"] = base["model"] | {k: v for k, v in case["model"].items()
                                         if len(compact(v)) < 200}
        seed["added_tokens"] = seed["added_tokens"][:4]
        words |= set(words_of(seed))
        # One of each set of component types.
        kinds = compact([w for w in words_of(seed | {"model": 0}) if w[:1].isupper()])
        if kinds not in seen:
            seen.add(kinds)
            write("tokenizer", case["name"], compact(seed))
    write("tokenizer", "unigram", compact(base | {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                  "vocab": [[token, -float(i)] for token, i in vocab.items()]}}))
    write_dictionary("tokenizer", {w for w in words if w})


def templates():
    words = {"{% ", " %}", "{{ ", " }}", "{# ", " #}", "{%- ", " -%}", "namespace(", "loop.first",
             "macro", "endmacro", "set ", "endset", "for ", " in ", "endfor", "if ", "elif ",
             "else", "endif", "messages", "message['role']", "content", "add_generation_prompt",
             "bos_token", "eos_token", "raise_exception(", "strftime_now(", "| tojson", "| trim",
             "is defined", "is string", "not ", " and ", " or ", "range(", "filter ", "endfilter",
             "break", "continue", "recursive", "[::-1]", "[1:]", "~", "{% generation %}",
             "{% endgeneration %}", "call ", "endcall", "| map(attribute=", "| join(", "**", "//"}
    for i, case in enumerate(json.loads((DATA / "chat_templates.json").read_text())[::3]):
        if len(case["template"]) < 3000:
            write("template", f"chat-{i}", case["template"])
    for path in sorted(DATA.glob("golden/*/chat_template.jinja"))[:2]:
        write("template", path.parent.name, path.read_text())
    write_dictionary("template", words)


def add_family(writer, architecture, hidden=32):
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_rope_dimension_count(hidden // 2)
    if architecture == "gemma3":
        writer.add_sliding_window(16)
    writer.add_tensor("token_embd.weight", np.zeros((4, hidden), np.float16))
    writer.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    block = np.zeros((1, 18), np.uint8)
    writer.add_tensor("blk.0.attn_output.weight", block, raw_dtype=gguf.GGMLQuantizationType.Q4_0)


def ggufs():
    keys = set()
    for architecture in ["llama", "qwen2", "qwen3", "gemma3", "gptneox"]:
        path = HERE / "corpus" / "gguf" / architecture
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = gguf.GGUFWriter(path, architecture)
        add_family(writer, architecture)
        spm = architecture in ("llama", "gemma3")
        writer.add_tokenizer_model("llama" if spm else "gpt2")
        writer.add_tokenizer_pre("default" if spm else "qwen2")
        tokens = ["<unk>", "<s>", "H", "e", "He"]
        writer.add_token_list(tokens)
        writer.add_token_types([2, 3, 1, 1, 1])
        if spm:
            writer.add_token_scores([0.0, 0.0, -1.0, -2.0, -3.0])
        else:
            writer.add_token_merges(["H e"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(1)
        writer.add_chat_template("{{ messages[0]['content'] }}")
        for kv in writer.kv_data:
            keys |= set(kv)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    write_dictionary("gguf", keys | {"split.count", "rope_freqs.weight", "blk.0.attn_q.weight"})


def requests():
    texts = {
        "text": 'text: "Hi" stopping { max_tokens: 5 stop: "a" stop: "\\n\\n" stop_token_ids: 3 }',
        "ids": 'request_id: "a" model: "m" priority: -3 token_ids { ids: 1 ids: 2 ids: 255 }',
        "chat": 'chat { messages { role: "user" content: "Hi" } add_generation_prompt: false }',
        "sampling": 'text: "a" sampling { temperature: 0.5 top_p: 0.9 top_k: 4 min_p: 0.1 '
                    'repetition_penalty: 1.1 presence_penalty: -1 frequency_penalty: 1 seed: 7 '
                    'logit_bias { key: 3 value: -100 } }',
        "output": 'text: "a" output { logprobs: 3 prompt_logprobs: 0 echo: true '
                  'skip_special_tokens: false } stopping { min_tokens: 2 ignore_eos: true }',
        "h2o": 'text: "a" eviction { policy: H2O budget_tokens: 32 sink_tokens: 2 '
               'recent_tokens: 8 audit: true }',
        "streaming": 'text: "abc" eviction { policy: STREAMING budget_ratio: 0.2 '
                     'prefill_eviction: PER_CHUNK }',
        "window": 'text: "abc" eviction { policy: WINDOW recent_tokens: 8 min_budget_tokens: 2 }',
        "full": 'text: "abc" eviction { policy: FULL }',
    }
    proto = HERE.parent.parent / "proto"
    for name, text in texts.items():
        encoded = subprocess.run(
            ["protoc", f"--proto_path={proto}", "--encode=hydrant.v1.GenerateRequest",
             "hydrant/v1/generation.proto"],
            input=text.encode(), capture_output=True, check=True)
        write("request", name, encoded.stdout)
    # Keys of fields (number and wire type), and numbers at the ends of their ranges.
    keys = {bytes([number << 3 | kind]) for number in range(1, 11) for kind in (0, 2, 5)}
    floats = {struct.pack("<f", value) for value in (0, -1, 1, 100, float("inf"), float("nan"))}
    varints = {b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08",
               b"\xff" * 9 + b"\x01"}
    write_dictionary("request", keys | floats | varints)


configs()
safetensors()
tokenizers()
templates()
ggufs()
requests()
