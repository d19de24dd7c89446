#!/usr/bin/env python3
"""Writes unicode_tables.inc: decompositions, combining classes, case mappings, categories, scripts.

Whatever decides on token ids is asked of Hugging Face's `tokenizers`, since its parts are of several
versions of Unicode, which ours have to match; upper case and categories are Python's.
Usage: unicode_tables.py > unicode_tables.inc   (needs the Python package tokenizers)
"""

import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def array(kind, name, numbers):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for number in numbers:
        text = f" {number},"
        if len(line) + len(text) > 99:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")


def mappings(name, function):
    """Characters that `function` changes: keys, ends of their values in the pool, the pool."""
    keys, ends, pool = [], [], []
    for c in CHARACTERS:
        mapped = function(c)
        if mapped == c or ord(c) in HANGUL:
            continue
        keys.append(ord(c))
        pool += map(ord, mapped)
        ends.append(len(pool))
    array("uint32_t", f"k{name}Keys", keys)
    array("uint16_t", f"k{name}Ends", ends)
    array("uint32_t", f"k{name}Pool", pool)


def composition_pairs():
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    triples = []
    for c in CHARACTERS:
        if ord(c) in HANGUL or len(nfd(c)) < 2 or nfc(c) != c:
            continue
        # The first of the pair is what all but the last character of the decomposition compose to.
        full = nfd(c)
        head = nfc(full[:-1])
        if len(head) == 1 and nfc(head + full[-1]) == c:
            triples.append((ord(head), ord(full[-1]), ord(c)))
        else:
            raise SystemExit(f"no pair composes to {c!r}")
    return sorted(triples)


def ranges(name, kind, function):
    """Where `function` of the characters changes: first characters, and the values from there."""
    starts, values = [], []
    for c in range(0x110000):
        value = function(chr(c))
        if not values or values[-1] != value:
            starts.append(c)
            values.append(value)
    array("uint32_t", f"k{name}Starts", starts)
    array(kind, f"k{name}Values", values)


def swaps(first, second, nfd=normalizers.NFD().normalize_str):
    """Whether the class of `first` is above that of `second`, which is not 0."""
    return nfd(first + second) != nfd(first) + nfd(second)


LOWEST, HIGHEST = "\u0334", "\u0345"  # of the classes 1 and 240
# A character of each class that the library knows.
REPRESENTATIVES = sorted({unicodedata.combining(chr(c)): chr(c)
                          for c in range(0x30FF, 0x2FF, -1) if unicodedata.combining(chr(c))
                          and normalizers.NFD().normalize_str(chr(c)) == chr(c)
                          and (swaps(chr(c), LOWEST) or chr(c) == LOWEST)}.items())


def combining_class(c):
    """By the characters that it changes places with."""
    if not swaps(c, LOWEST) and not swaps(HIGHEST, c):
        return 0 if c != HIGHEST else 240
    return next(value for value, mark in REPRESENTATIVES if not swaps(c, mark))


def classes():
    known = {}
    for c in CHARACTERS:
        if unicodedata.combining(c):
            known[c] = combining_class(c)
    return lambda c: known.get(c, 0)


def split_off(pre_tokenizer):
    """Whether a character is cut from letters around it."""
    return lambda c: not any(c in piece and "a" in piece
                             for piece, _ in pre_tokenizer.pre_tokenize_str("a" + c + "a"))


def traits():
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    clean = normalizers.BertNormalizer(**{**bert, "clean_text": True}).normalize_str
    strip = normalizers.BertNormalizer(**{**bert, "strip_accents": True}).normalize_str
    marks = normalizers.StripAccents().normalize_str
    punctuation = split_off(pre_tokenizers.Punctuation("isolated"))
    digits = split_off(pre_tokenizers.Digits(individual_digits=True))
    words = split_off(pre_tokenizers.Whitespace())

    def of(c):
        if 0xD800 <= ord(c) < 0xE000:
            return 0
        tests = (marks(c) == "", clean(c) == "", strip(c) == "", punctuation(c), digits(c),
                 not words(c))
        return sum(1 << i for i, test in enumerate(tests) if test)

    return of


def scripts(cut=pre_tokenizers.UnicodeScripts().pre_tokenize_str):
    """Numbers of scripts; 0 of characters that go with every script."""
    known = ["a"]
    last = [0]

    def of(c):
        if 0xD800 <= ord(c) < 0xE000:
            return 0
        together = [len(cut(k + c)) == 1 for k in ("a", "\u3042")]
        if all(together):
            return 0
        order = [last[0], *range(len(known))]
        for i in order:
            if len(cut(known[i] + c)) == 1:
                last[0] = i
                return i + 1
        known.append(c)
        last[0] = len(known) - 1
        return len(known)

    return of


CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
              "Cc Cf Cs Co Cn").split()

def newer_members():
    """By property: ranges of characters that the regular expressions of the library know, and
    Unicode 14, which PCRE2 in Debian 12 goes by, does not."""
    if unicodedata.unidata_version != "14.0.0":
        raise SystemExit("run by a Python of Unicode 14: Debian 12's")
    unassigned = "".join(c for c in CHARACTERS if unicodedata.category(c) == "Cn")
    names = sorted({*CATEGORIES, *"LMNPSZ"} - {"Cs", "Co", "Cn"})
    names += ["Assigned", "NotOther", "Alphabetic", "Uppercase", "Lowercase", "Arabic", "Armenian", "Bengali",
              "Cyrillic", "Devanagari", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han",
              "Hangul", "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin",
              "Malayalam", "Mongolian", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu", "Thai",
              "Tibetan"]
    known, ends, pool = [], [], []
    for name in names:
        others = {"Assigned": "\\p{Cn}", "NotOther": "\\p{C}"}.get(name, f"[^\\p{{{name}}}]")
        found = []
        for c in map(ord, normalizers.Replace(Regex(others), "").normalize_str(unassigned)):
            if found and found[-1][1] == c - 1:
                found[-1][1] = c
            else:
                found.append([c, c])
        if found:
            known.append(name)
            pool += [n for pair in found for n in pair]
            ends.append(len(pool))
    print("constexpr std::string_view kNewerNames[] = {")
    print("    " + ", ".join(f'"{name}"' for name in known) + "};")
    array("uint16_t", "kNewerEnds", ends)
    array("uint32_t", "kNewerRanges", pool)


print("// Generated by unicode_tables.py.")
print("// clang-format off")
mappings("Canonical", normalizers.NFD().normalize_str)
nfd = normalizers.NFD().normalize_str
mappings("Compatible", lambda c: (lambda k: k if k != nfd(c) else c)(normalizers.NFKD().normalize_str(c)))
array("uint32_t", "kCompositions", [n for triple in composition_pairs() for n in triple])
mappings("Lower", normalizers.Lowercase().normalize_str)
mappings("Upper", str.upper)
ranges("Class", "uint8_t", classes())
ranges("Category", "uint8_t", lambda c: CATEGORIES.index(unicodedata.category(c)))
ranges("Trait", "uint8_t", traits())
ranges("Script", "uint8_t", scripts())
newer_members()
print("// clang-format on")
