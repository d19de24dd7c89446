#!/usr/bin/env python3
"""Writes small.json: tokenizer.json files put together at random from every kind of model,
normalizer, pre-tokenizer, post-processor, decoder and added token, trained on a few lines, with what
Hugging Face's library makes of texts that are hard on them.

Usage: make_small.py [SEED [COUNT]] > small.json   (needs the Python package tokenizers)
"""

import json
import random
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

R = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 60
# SentencePiece's form of a dozen rules.
CHARSMAP = "AAQAAAAgAAAJDQAAAQAAgMwYAgCBBQAAGQAAgBEAAIC9OQAAhQkAAAMAAIAWAACADgAAgAkAAICEDQAAHAAAgIBQAgCLBQAAAAAAgJ9lAACBMAIAi4gDAOMEAgCCYAIAmT0AACEAAICBDQAACwAAgAcAAIChHQAAng0AABQAAIAeAAAArOACACAAAAAjAAAAIgAAAKmhAAAkAAAAJwAAACYAAAApAAAAKAAAACsAAAAqAAAALQAAACwAAAAvAAAALgAAALw0AgC9yAIAMwAAADIAAAA1AAAANAAAADcAAAA2AAAAOQAAADgAAAA7AAAAOgAAAD0AAAA8AAAAPwAAAD4AAABBAAAAQAAAAEMAAABCAAAARQAAAEQAAABHAAAARgAAAEkAAABIAAAASwAAAEoAAABNAAAATAAAAE8AAABOAAAAUQAAAFAAAABTAAAAUgAAAFUAAABUAAAAVwAAAFYAAABZAAAAWAAAAFsAAABaAAAAXQAAAFwAAABfAAAAXgAAAGEAAABgAAAAYwAAAGIAAABlAAAAZAAAAGcAAABmAAAAaQAAAGgAAABrAAAAagAAAG0AAABliAIAbwAAAG4AAAB42QEAcAAAAHMAAAByAAAAdQAAAHQAAAB3AAAAdgAAAHkAAAB4AAAAewAAAHoAAAB9AAAAfAAAAH8AAAB+AAAAgQAAAIAAAACDAAAAggAAAIUAAACEAAAAhwAAAIYAAACJAAAAiAAAAIsAAACKAAAAjQAAAIwAAACPAAAAjgAAAJEAAACQAAAAkwAAAJIAAACVAAAAlAAAAJcAAACWAAAAmQAAAJgAAACbAAAAmgAAAJ0AAACcAAAAnwAAAJ4AAAChAAAAoAAAAKMAAACiAAAApQAAAKQAAACnAAAApgAAAKkAAACoAAAAqwAAAKoAAACtAAAArAAAAK8AAACuAAAAsQAAALAAAACzAAAAsgAAALUAAAC0AAAAtwAAALYAAAC5AAAAuAAAALsAAAC6AAAAvQAAALwAAAC/AAAAvgAAAMEAAADAAAAAwwAAAMIAAADFAAAAzTABAMcAAADGAAAAyQAAAMgAAADCwAEAwxgBAM0AAADMAAAAzwAAAM4AAADRAAAA0AAAANMAAADSAAAA1QAAANQAAADXAAAA1gAAANkAAADYAAAA2wAAANoAAADdAAAA3AAAAN8AAADeAAAA4QAAAOAAAADjAAAA4gAAAOUAAADkAAAA5wAAAO+sAQDpAAAA6AAAAOKUAQDj5AEA7QAAAOwAAADvAAAA7gAAAPEAAADwAAAA8wAAAPIAAAD1AAAA9AAAAPcAAAD2AAAA+QAAAPgAAAD7AAAA+gAAAP0AAAD8AAAA/wAAAP4AAAAAIAAxLzIAQQBlAGZpAHNzAHl5AH4Aw6UAw6kAzIjMgQDjgYwA"
NASTY = [
    "a",
    "B",
    "é",
    "e\u0301",
    "ß",
    "ſ",
    "İ",
    "ı",
    "Σ",
    "ς",
    "ﬁ",
    "½",
    "²",
    "①",
    "Ａ",
    "ｶﾞ",
    "が",
    "か\u3099",
    "東京",
    "한국",
    "\u1112\u1161\u11ab",
    "각",
    "\u0928\u093f",
    "क\u094d\u0937",
    "🙂",
    "👨‍👩‍👧",
    "👍🏽",
    "🇫🇷",
    "❤️",
    "\u200d",
    "\u200b",
    "\ufeff",
    "\u00ad",
    "\u0000",
    "\u0001",
    "\u0007",
    "\u007f",
    "\u0085",
    "\u009f",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\u2029",
    "\t",
    "\n",
    "\r\n",
    "\r",
    "\x0b",
    "\x0c",
    "\x1c",
    " ",
    "  ",
    "   ",
    ".",
    ",",
    "!",
    "?",
    "'s",
    "'LL",
    " n't",
    "-",
    "--",
    "_",
    "$",
    "+",
    "<",
    ">",
    "^",
    "`",
    "|",
    "~",
    "(",
    "[",
    "{",
    "«",
    "…",
    "“",
    "7",
    "42",
    "1234567",
    "٣",
    "४",
    "x²",
    "1st",
    "</s>",
    "<s>",
    "[MASK]",
    "▁",
    "▁▁",
    "Ġ",
    "<0x0A>",
    "##a",
    "word",
    "World",
    "the",
    "ing",
    "THE",
    "hello world",
    "naïve",
    "Å",
    "\u212b",
    "\u0344",
    "ΐ",
    "\u0f73",
    "\u0cca",
    "𝟘",
    "𐐀",
    "\u0300\u0301",
    "a\u0327\u0301",
    "q\u0307\u0323",
    "ﷺ",
    "\u01c4",
    "㌀",
    "꙳",
    "\u180e",
    "\u2060",
    "~~",
    "==",
    "<|x|>",
    "\ufffd",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "ั",
    "เด็ก",
    "ก็",
    "\u0e33",
    "ﾊﾟ",
    "ඞ",
    "\u0600",
    "١٢",
    "a\u0301\u0301\u0301\u0301",
    "longwordlongwordlongword",
]
CORPUS = [
    "the quick brown fox jumps over the lazy dog",
    "Hello World hello world naïve café résumé",
    "don't can't it's we've you're I'm",
    "東京は日本の首都です 한국어 텍스트",
    "numbers 1 22 333 4444 55555",
    "The THE the lowered Uppercase",
    "déjà vu ÀÉÎ Straße",
    "🙂🙂 👍🏽 emoji ❤️ text",
    "tabs\tand\nnewlines  double   spaces",
    'punct. uation, yes! no? (ok) [a] {b} "q" — dash',
] * 3


def text():
    k = R.random()
    if k < 0.1:
        return "".join(R.choice(NASTY) for _ in range(R.randint(30, 120)))
    if k < 0.2:
        return R.choice(CORPUS)
    if k < 0.3:
        return " ".join(R.choice(CORPUS).split()[: R.randint(1, 6)]) + R.choice(NASTY)
    if k < 0.35:
        return R.choice(NASTY) * R.randint(1, 40)
    if k < 0.4:
        return "".join(
            chr(
                R.choice(
                    [
                        R.randint(0, 0x2FF),
                        R.randint(0x300, 0x3FFF),
                        R.randint(0x4E00, 0x9FFF),
                        R.randint(0xAC00, 0xD7A3),
                        R.randint(0xF900, 0xFFFF),
                        R.randint(0x10000, 0x1FFFF),
                    ]
                )
            )
            for _ in range(R.randint(1, 20))
        )
    return "".join(R.choice(NASTY) for _ in range(R.randint(0, 12)))


def norm(d=0):
    opts = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")]
    opts += [
        {"type": "Strip", "strip_left": R.random() < 0.5, "strip_right": R.random() < 0.5},
        {"type": "Prepend", "prepend": R.choice(["▁", "x "])},
        {
            "type": "Replace",
            "pattern": R.choice(
                [
                    {"String": " "},
                    {"Regex": " {2,}"},
                    {"Regex": "\\s+"},
                    {"String": "``"},
                    {"Regex": "[a-c]"},
                    {"Regex": "\\p{Lu}"},
                ]
            ),
            "content": R.choice(["▁", " ", "", "zz"]),
        },
        {
            "type": "BertNormalizer",
            "clean_text": R.random() < 0.5,
            "handle_chinese_chars": R.random() < 0.5,
            "strip_accents": R.choice([None, True, False]),
            "lowercase": R.random() < 0.5,
        },
    ]
    opts.append({"type": "Precompiled", "precompiled_charsmap": CHARSMAP})
    if d == 0 and R.random() < 0.35:
        return {"type": "Sequence", "normalizers": [norm(1) for _ in range(R.randint(0, 3))]}
    return R.choice(opts)


BEH = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pre(d=0):
    opts = [
        {
            "type": "ByteLevel",
            "add_prefix_space": R.random() < 0.5,
            "trim_offsets": True,
            "use_regex": R.random() < 0.6,
        },
        {"type": "Whitespace"},
        {"type": "WhitespaceSplit"},
        {"type": "BertPreTokenizer"},
        {"type": "Punctuation", "behavior": R.choice(BEH)},
        {"type": "Digits", "individual_digits": R.random() < 0.5},
        {"type": "CharDelimiterSplit", "delimiter": R.choice([" ", "a", "é"])},
        {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": R.choice(["always", "first", "never"]),
            "split": R.random() < 0.6,
        },
        {
            "type": "Split",
            "pattern": R.choice(
                [
                    {"String": " "},
                    {"String": "a"},
                    {"Regex": "\\s+"},
                    {"Regex": "\\w+|[^\\w\\s]+"},
                    {"Regex": "[\\r\\n]"},
                    {"Regex": "\\p{N}{1,3}"},
                    {
                        "Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
                    },
                    {"Regex": "\\s?\\p{L}+"},
                    {"Regex": " ?[^(\\s|[.,!?…。，、।۔،])]+"},
                    {
                        "Regex": "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
                    },
                    {"Regex": "[一-龥぀-ゟ゠-ヿ]+"},
                    {"Regex": "[\\p{L}&&[^a-z]]+"},
                    {"Regex": "\\b"},
                    {"Regex": "x*"},
                ]
            ),
            "behavior": R.choice(BEH),
            "invert": R.random() < 0.3,
        },
        {"type": "UnicodeScripts"},
        {"type": "FixedLength", "length": R.randint(1, 7)},
    ]
    if d == 0 and R.random() < 0.4:
        return {"type": "Sequence", "pretokenizers": [pre(1) for _ in range(R.randint(0, 3))]}
    return R.choice(opts)


def dec(d=0):
    opts = [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "WordPiece", "prefix": "##", "cleanup": R.random() < 0.6},
        {"type": "BPEDecoder", "suffix": R.choice(["</w>", "a"])},
        {
            "type": "CTC",
            "pad_token": R.choice(["<pad>", "a"]),
            "word_delimiter_token": R.choice(["|", " "]),
            "cleanup": R.random() < 0.5,
        },
        {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": R.choice(["always", "first", "never"]),
            "split": True,
        },
        {
            "type": "Replace",
            "pattern": R.choice([{"String": "▁"}, {"String": "a"}, {"Regex": "\\s+"}]),
            "content": R.choice([" ", "", "b"]),
        },
        {
            "type": "Strip",
            "content": R.choice([" ", "a"]),
            "start": R.randint(0, 2),
            "stop": R.randint(0, 2),
        },
    ]
    if d == 0 and R.random() < 0.5:
        return {"type": "Sequence", "decoders": [dec(1) for _ in range(R.randint(0, 4))]}
    return R.choice(opts)


def build():
    kind = R.choice(
        ["BPE", "BPE", "Unigram", "Unigram", "WordPiece", "WordLevel", "BPEbyte", "BPEaffix"]
    )
    nz = norm() if R.random() < 0.6 else None
    pt = pre() if R.random() < 0.8 else None
    if kind == "BPEbyte":
        pt = (
            {
                "type": "Sequence",
                "pretokenizers": [
                    pre(1),
                    {
                        "type": "ByteLevel",
                        "add_prefix_space": R.random() < 0.5,
                        "trim_offsets": True,
                        "use_regex": R.random() < 0.6,
                    },
                ],
            }
            if R.random() < 0.5
            else {
                "type": "ByteLevel",
                "add_prefix_space": R.random() < 0.5,
                "trim_offsets": True,
                "use_regex": R.random() < 0.6,
            }
        )
    base = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": nz,
        "pre_tokenizer": pt,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {}, "unk_token": "<unk>"},
    }
    t = Tokenizer.from_str(json.dumps(base))
    alpha = sorted(set("".join(NASTY[:60])))
    special = ["<unk>", "<s>", "</s>"]
    if kind in ("BPE", "BPEbyte", "BPEaffix"):
        kw = {}
        if kind == "BPEaffix":
            if R.random() < 0.6:
                kw["end_of_word_suffix"] = "</w>"
            if R.random() < 0.6:
                kw["continuing_subword_prefix"] = "##"
        t.model = models.BPE(
            unk_token=R.choice([None, "<unk>"]),
            fuse_unk=R.random() < 0.5,
            byte_fallback=False,
            **kw
        )
        tr = trainers.BpeTrainer(
            vocab_size=R.choice([120, 200]),
            special_tokens=special
            + (["<0x%02X>" % i for i in range(256)] if R.random() < 0.15 else []),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if kind == "BPEbyte" else alpha,
            show_progress=False,
            limit_alphabet=200,
            **kw
        )
    elif kind == "Unigram":
        t.model = models.Unigram()
        tr = trainers.UnigramTrainer(
            vocab_size=R.choice([80, 120]),
            special_tokens=special
            + (["<0x%02X>" % i for i in range(256)] if R.random() < 0.15 else []),
            unk_token="<unk>",
            show_progress=False,
        )
    elif kind == "WordPiece":
        t.model = models.WordPiece(unk_token="<unk>", max_input_chars_per_word=R.choice([100, 5]))
        tr = trainers.WordPieceTrainer(
            vocab_size=150, special_tokens=special, show_progress=False, limit_alphabet=150
        )
    else:
        t.model = models.WordLevel(unk_token="<unk>")
        tr = trainers.WordLevelTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    try:
        t.train_from_iterator(CORPUS, tr)
    except BaseException as ex:
        return None
    j = json.loads(t.to_str())
    m = j["model"]
    if kind in ("BPE", "BPEbyte"):
        m["byte_fallback"] = R.random() < 0.5 and "<0x00>" in m["vocab"]
        m["ignore_merges"] = R.random() < 0.3
        m["dropout"] = R.choice([None, 0.0])
    if kind == "Unigram":
        m["byte_fallback"] = R.random() < 0.5
    nid = (
        max(
            [a["id"] for a in j["added_tokens"]]
            + (list(m["vocab"].values()) if isinstance(m["vocab"], dict) else [len(m["vocab"]) - 1])
        )
        + 1
    )
    for c in R.sample(
        ["[MASK]", "<|x|>", "the", "a", "  ", "é", "word", "\n", "ＡＢ", "<0x0A>"], R.randint(0, 5)
    ):
        if any(a["content"] == c for a in j["added_tokens"]):
            continue
        v = (
            m["vocab"]
            if isinstance(m["vocab"], dict)
            else {p: i for i, (p, _) in enumerate(m["vocab"])}
        )
        i = v.get(c)
        if i is None:
            i = nid
            nid += 1
        j["added_tokens"].append(
            {
                "id": i,
                "content": c,
                "single_word": R.random() < 0.3,
                "lstrip": R.random() < 0.3,
                "rstrip": R.random() < 0.3,
                "normalized": R.random() < 0.5,
                "special": R.random() < 0.4,
            }
        )
    j["added_tokens"] = [
        a
        for a in j["added_tokens"]
        if a["id"] < 3 or not a["normalized"] or not a["content"].isspace()
    ]
    j["added_tokens"].sort(key=lambda a: a["id"])
    pp = R.random()
    ids = lambda s: {
        "id": s,
        "ids": [next(a["id"] for a in j["added_tokens"] if a["content"] == s)],
        "tokens": [s],
    }
    if pp < 0.3:
        j["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ]
            + ([{"SpecialToken": {"id": "</s>", "type_id": 0}}] if R.random() < 0.5 else []),
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"<s>": ids("<s>"), "</s>": ids("</s>")},
        }
    elif pp < 0.4:
        j["post_processor"] = {
            "type": R.choice(["BertProcessing"]),
            "sep": ["</s>", ids("</s>")["ids"][0]],
            "cls": ["<s>", ids("<s>")["ids"][0]],
        }
    elif pp < 0.5:
        j["post_processor"] = {
            "type": "RobertaProcessing",
            "sep": ["</s>", ids("</s>")["ids"][0]],
            "cls": ["<s>", ids("<s>")["ids"][0]],
            "trim_offsets": True,
            "add_prefix_space": False,
        }
    j["decoder"] = dec() if R.random() < 0.85 else None
    return kind, j


def cases(tokenizer):
    out = []
    for _ in range(5):
        case = {"text": text(), "special": R.random() < 0.5}
        try:
            case["ids"] = tokenizer.encode(case["text"], add_special_tokens=case["special"]).ids
            size = tokenizer.get_vocab_size()
            case["decode"] = case["ids"] + [R.randrange(size) for _ in range(R.randint(0, 4))]
            case["skip"] = R.random() < 0.5
            case["decoded"] = tokenizer.decode(case["decode"], skip_special_tokens=case["skip"])
        except BaseException:  # the library panics on some
            continue
        out.append(case)
    return out


files = []
while len(files) < COUNT:
    built = build()
    if built is None:
        continue
    name, file = built
    try:
        tokenizer = Tokenizer.from_str(json.dumps(file))
    except BaseException:
        continue
    if len(json.dumps(file)) < 16000:
        files.append({"name": name, "file": file, "cases": cases(tokenizer)})
print("[" + ",\n".join(json.dumps(f, separators=(",", ":")) for f in files) + "]")
