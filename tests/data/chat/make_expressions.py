#!/usr/bin/env python3
"""Writes expressions.json: random small templates that Jinja, set up as transformers does, renders.

Usage: make_expressions.py [SEED [COUNT]] > expressions.json   (needs transformers and jinja2)
"""

import copy
import json
import random
import re
import sys
import warnings

from transformers.utils.chat_template_utils import _compile_jinja_template

warnings.simplefilter("ignore")
R = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 500
VARS = {
    "messages": [{"role": "user", "content": "Hi"}],
    "s": "Hello, wörld",
    "e": "",
    "t": "  trim me \n",
    "i": 7,
    "z": 0,
    "neg": -3,
    "f": 2.5,
    "g": 0.1,
    "yes": True,
    "no": False,
    "nil": None,
    "l": [3, 1, 2],
    "ls": ["b", "A", "c"],
    "el": [],
    "d": {"a": 1, "b": [1, 2], "items": 5, "name": "x"},
    "ed": {},
    "ld": [
        {"n": "x", "v": 2, "o": {"p": 1}},
        {"n": "Y", "v": 1, "o": {"p": 2}},
        {"n": "x", "v": 3},
    ],
    "mix": [1, "a", None, 2.5, True, [1], {"k": "v"}],
    "u": "日本語 ÄÖ ß",
    "ml": "line1\nline2\n\nline3",
    "q": 'it\'s "q" <b>&',
}
NAMES = [k for k in VARS if k != "messages"] + ["undef"]


def lit():
    return R.choice(
        [
            "1",
            "0",
            "-2",
            "3",
            "2.5",
            "'a'",
            "''",
            "'l'",
            "'x y'",
            "true",
            "none",
            "[]",
            "[1,2]",
            "{}",
            "{'a':1}",
            "('a',2)",
            "10",
            "'%s-%d'",
            "'{}'",
            "','",
            "1e3",
            "0.1",
            "100",
            "'é'",
            "'1.5'",
            "'42'",
            '"n"',
            "'\\n'",
        ]
    )


def atom():
    return R.choice(NAMES) if R.random() < 0.75 else lit()


filters = [
    "upper",
    "lower",
    "trim",
    "length",
    "first",
    "last",
    "list",
    "join(',')",
    "join",
    "sort",
    "reverse|list",
    "unique|list",
    "tojson",
    "tojson(indent=2)",
    "string",
    "int",
    "float",
    "abs",
    "default('D')",
    "default('D',true)",
    "d(1)",
    "capitalize",
    "title",
    "replace('l','L')",
    "replace('','-')",
    "replace('a','bb',1)",
    "indent",
    "indent(2,true)",
    "indent(2,blank=true)",
    "items|list",
    "dictsort",
    "map('upper')|list",
    "map(attribute='n')|list",
    "map(attribute='o.p',default=0)|list",
    "selectattr('v')|list",
    "selectattr('n','equalto','x')|list",
    "rejectattr('v','gt',1)|list",
    "select('string')|list",
    "select|list",
    "reject('none')|list",
    "sum",
    "sum(attribute='v')",
    "min",
    "max",
    "max(attribute='v')",
    "round",
    "round(1)",
    "round(1,'ceil')",
    "batch(2)|list",
    "batch(2,'-')|list",
    "slice(2)|list",
    "slice(2,'-')|list",
    "groupby('n')|list",
    "groupby('v')|map(attribute='list')|list",
    "wordcount",
    "truncate(5)",
    "truncate(6,true)",
    "truncate(5,false,'..',0)",
    "center(12)",
    "format(1,2)",
    "attr('a')",
    "attr('upper')",
    "count",
    "sort(reverse=true)",
    "sort(attribute='v')",
    "sort(attribute='n,v')",
    "sort(case_sensitive=true)",
    "tojson(ensure_ascii=true)",
    "tojson(sort_keys=true)",
    "tojson(separators=(',',':'))",
    "urlencode",
    "trim('t ')",
    "unique(attribute='n')|list",
    "length+1",
    "random_nope",
    "int(-1)",
    "int(base=16)",
    "float(1.5)",
]
tests = [
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "float",
    "boolean",
    "mapping",
    "sequence",
    "iterable",
    "true",
    "false",
    "odd",
    "even",
    "divisibleby 2",
    "divisibleby(3)",
    "lower",
    "upper",
    "in l",
    "in s",
    "in [1,'a']",
    "eq 1",
    "==(2)",
    "sameas none",
    "callable",
    "gt 1",
    "lt(5)",
    "ne 'a'",
    "in d",
    "equalto 'x'",
    "filter",
    "test",
]
methods = [
    "upper()",
    "lower()",
    "strip()",
    "lstrip()",
    "rstrip()",
    "split()",
    "split(',')",
    "split('l',1)",
    "rsplit('l',1)",
    "startswith('H')",
    "endswith('d')",
    "replace('l','L')",
    "replace('l','L',1)",
    "join(['a','b'])",
    "join(ls)",
    "title()",
    "capitalize()",
    "count('l')",
    "find('o')",
    "rfind('o')",
    "index('o')",
    "isdigit()",
    "isalpha()",
    "isalnum()",
    "isspace()",
    "isupper()",
    "islower()",
    "splitlines()",
    "splitlines(true)",
    "zfill(5)",
    "center(9,'*')",
    "ljust(9)",
    "rjust(9,'.')",
    "partition(',')",
    "rpartition('l')",
    "removeprefix('He')",
    "removesuffix('ld')",
    "swapcase()",
    "expandtabs()",
    "format(1,2)",
    "format(a=1)",
    "items()",
    "keys()",
    "values()",
    "get('a')",
    "get('zz')",
    "get('zz',9)",
    "get('items')",
    "items",
    "copy()",
    "append(1)",
    "pop()",
    "update({})",
    "index(1)",
    "count(1)",
    "a",
    "b",
    "name",
    "nope",
    "nope.x",
    "__class__",
    "strip('Hd')",
    "encode()",
    "rsplit()",
    "rsplit(none,1)",
    "split(none,1)",
    "istitle()",
    "isnumeric()",
    "isidentifier()",
    "casefold()",
    "find('l',3)",
    "find('l',-3,-1)",
    "startswith(('a','H'))",
    "isascii()",
    "0",
    "1",
]


def expr(d):
    if d <= 0:
        return atom()
    k = R.random()
    if k < 0.2:
        return "(%s) | %s" % (expr(d - 1), R.choice(filters))
    if k < 0.35:
        return "(%s).%s" % (expr(d - 1), R.choice(methods))
    if k < 0.45:
        return "(%s) is %s%s" % (expr(d - 1), R.choice(["", "not "]), R.choice(tests))
    if k < 0.6:
        return "%s %s %s" % (
            expr(d - 1),
            R.choice(["+", "-", "*", "/", "//", "%", "**", "~", "~", "+"]),
            expr(d - 1),
        )
    if k < 0.7:
        return "%s %s %s" % (
            expr(d - 1),
            R.choice(["==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"]),
            expr(d - 1),
        )
    if k < 0.75:
        return "not %s" % expr(d - 1)
    if k < 0.8:
        return "(%s if %s else %s)" % (expr(d - 1), expr(d - 1), expr(d - 1))
    if k < 0.9:
        return "(%s)[%s]" % (
            expr(d - 1),
            R.choice(
                [
                    "0",
                    "-1",
                    "1:",
                    "::-1",
                    ":2",
                    "-2:",
                    "1:3",
                    "::2",
                    "'a'",
                    "'n'",
                    "'upper'",
                    ":-1",
                    "3::-1",
                    "99",
                    "-99",
                    "100:",
                    ":99",
                    atom(),
                ]
            ),
        )
    if k < 0.93:
        return "[%s, %s]" % (expr(d - 1), expr(d - 1))
    if k < 0.96:
        return "{'k': %s, %s: 1}" % (expr(d - 1), R.choice(["'b'", "1", "i", "s"]))
    if k < 0.98:
        return "-%s" % expr(d - 1)
    return "(%s, %s)" % (expr(d - 1), expr(d - 1))


def stmt(d):
    k = R.random()
    e = lambda: expr(R.randint(0, 2))
    ws = lambda: R.choice(["", "", "-", "+"])
    ob = lambda: "{%" + ws()
    cb = lambda: R.choice(["", "", "-", "+"]) + "%}"
    txt = lambda: R.choice(["", "a", " ", "\n", "  \n  ", "x\n", "\n\n y", "{", "}", "# "])
    if d <= 0 or k < 0.35:
        return (
            txt()
            + "{{"
            + R.choice(["", "-"])
            + " "
            + e()
            + " "
            + R.choice(["", "-"])
            + "}}"
            + txt()
        )
    if k < 0.45:
        return (
            ob()
            + " if "
            + e()
            + " "
            + cb()
            + txt()
            + stmt(d - 1)
            + ob()
            + " else "
            + cb()
            + stmt(d - 1)
            + txt()
            + ob()
            + " endif "
            + cb()
            + txt()
        )
    if k < 0.6:
        return (
            ob()
            + " for %s in %s%s "
            % (
                R.choice(["x", "x", "x, y"]),
                R.choice(
                    [
                        "l",
                        "ls",
                        "ld",
                        "d",
                        "d.items()",
                        "el",
                        "undef",
                        "s",
                        "range(3)",
                        "mix",
                        "ld|groupby('n')",
                        "d|items",
                        e(),
                    ]
                ),
                R.choice(["", " if x is not none", " if loop is undefined"]),
            )
            + cb()
            + txt()
            + R.choice(
                [
                    "{{ x }}",
                    "{{ loop.index }}{{ loop.last }}",
                    "{{ loop.previtem }}|{{ loop.nextitem }}",
                    "{{ loop.cycle('a','b') }}",
                    "{{ loop.changed(x) }}",
                    "{% if loop.first %}{% continue %}{% endif %}",
                    "{% if loop.index > 2 %}{% break %}{% endif %}",
                    "{{ loop.revindex0 }}{{ loop.length }}{{loop.depth}}",
                ]
            )
            + stmt(d - 1)
            + R.choice(["", ob() + " else " + cb() + "none"])
            + ob()
            + " endfor "
            + cb()
            + txt()
        )
    if k < 0.7:
        return (
            ob()
            + " set %s = %s " % (R.choice(["v1", "s", "i", "v2"]), e())
            + cb()
            + txt()
            + stmt(d - 1)
            + "{{ v1 }}"
        )
    if k < 0.76:
        return (
            ob()
            + " set v1%s " % R.choice(["", " | upper", " | trim | length"])
            + cb()
            + stmt(d - 1)
            + ob()
            + " endset "
            + cb()
            + "[{{ v1 }}]"
        )
    if k < 0.82:
        return (
            ob()
            + " macro m(a, b=%s) " % e()
            + cb()
            + txt()
            + "{{ a }}{{ b }}{{ caller() if caller is defined }}{{ varargs }}{{ kwargs }}"
            + stmt(d - 1)
            + ob()
            + " endmacro "
            + cb()
            + R.choice(
                [
                    "{{ m(1) }}",
                    "{{ m(s, 2, 3, q=4) }}",
                    "{% call m(i) %}" + stmt(d - 1) + "{% endcall %}",
                    "{{ m() }}",
                    "{{ m(b=1,a=l) }}",
                    "{% call(zz) m(i) %}{{ zz }}{% endcall %}",
                ]
            )
        )
    if k < 0.87:
        return (
            ob()
            + " set ns = namespace(c=0, s='') "
            + cb()
            + "{% for x in l %}{% set ns.c = ns.c + x %}{% set ns.s = ns.s ~ "
            + e()
            + " %}{% endfor %}{{ ns.c }}{{ ns.s }}"
            + txt()
        )
    if k < 0.91:
        return (
            ob()
            + " filter %s " % R.choice(["upper", "trim", "indent(2)", "replace('a','b')", "length"])
            + cb()
            + stmt(d - 1)
            + ob()
            + " endfilter "
            + cb()
            + txt()
        )
    if k < 0.94:
        return (
            ob()
            + " with v1=%s, v2=%s " % (e(), e())
            + cb()
            + stmt(d - 1)
            + "{{v2}}"
            + ob()
            + " endwith "
            + cb()
            + txt()
        )
    if k < 0.96:
        return (
            ob()
            + " generation "
            + cb()
            + txt()
            + stmt(d - 1)
            + ob()
            + " endgeneration "
            + cb()
            + txt()
        )
    if k < 0.98:
        return "{#" + ws() + " c " + ws() + "#}" + txt() + stmt(d - 1)
    return (
        ob()
        + " raw "
        + R.choice(["", "-"])
        + "%}"
        + txt()
        + "{{ x }}"
        + ob()
        + " endraw "
        + cb()
        + txt()
    )


def tmpl():
    if R.random() < 0.5:
        return "{{ %s }}" % expr(R.randint(1, 3))
    return "".join(stmt(2) for _ in range(R.randint(1, 3)))


# Texts that name addresses or types of Python's own.
SKIPPED = re.compile(
    r"generator object|<|object at 0x|dict_(keys|values|items)|range\(|Undefined"
    r"|reversed|BUILT-IN|Markup|b'"
)


def rendered(source):
    variables = copy.deepcopy(VARS)
    try:
        return _compile_jinja_template(source).render(
            tools=None, documents=None, add_generation_prompt=True, **variables
        )
    except Exception:  # whatever the template or Jinja raises
        return None


cases = []
while len(cases) < COUNT:
    source = tmpl()
    text = rendered(source)
    if text is None or len(text) > 300 or SKIPPED.search(text):
        continue
    # Slices of what has none are folded away by Jinja where they are constant.
    if re.search(r"\)\[[^\]]*:[^\]]*\]", source) or "encode()" in source or "urlencode" in source:
        continue
    cases.append({"template": source, "rendered": text})
print(json.dumps({"variables": VARS, "cases": cases}, indent=0, ensure_ascii=True))
