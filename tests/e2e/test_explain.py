"""`hydrant explain`: its page in a real browser."""

import re
import subprocess

import pytest

from browser import Browser, Page, grey_values
from server_process import BINARY, MODEL, TINY_MODEL

# What HTML reads, what no glyph shows, what is written from the right, and what has several tokens
# a character.
ODD = 'if (a < b && c > "d") </span><script>alert(1)</script> &amp;\ttab\x07bell שלום 𝔘𒀀 日本\n\n'
STORY = ODD + (
    "The keeper of the lighthouse wrote down every ship that passed: its name, its flag and the "
    "hour. On the third of May the brig Meridian came by with salt and slate, and the keeper's "
    "daughter waved from the gallery. "
) * 6
MAX_TOKENS = 40


def explain(output, *flags, prompt=STORY, model=MODEL):
    return subprocess.run(
        [BINARY, "explain", f"--model={model}", f"--output={output}", "--kv_cache_bytes=200MB",
         *flags],
        input=prompt.encode(),
        capture_output=True,
        timeout=600,
    )


def make(output, *flags, **arguments):
    result = explain(output, *flags, **arguments)
    assert result.returncode == 0, result.stderr.decode()
    return output.as_uri()


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """H2O within 64 tokens of about 350."""
    return make(tmp_path_factory.mktemp("explain") / "page.html", "--eviction=h2o",
                "--budget_tokens=64", f"--max_tokens={MAX_TOKENS}", "--ignore_eos")


@pytest.fixture(scope="module")
def page(browser, url):
    return Page(browser, url)


def inspected(name):
    text = subprocess.run([BINARY, "inspect", MODEL], capture_output=True, text=True,
                          check=True).stdout
    return [int(number) for number in re.search(rf"^{name} +(.*)$", text, re.M)[1].split()
            if number.isdigit()]


def prompt_tokens():
    ids = subprocess.run([BINARY, "tokenize", f"--model={MODEL}"], input=STORY.encode(),
                         capture_output=True, check=True).stdout
    return len(ids.split())


def test_nothing_is_fetched_and_nothing_complained(page, url):
    assert page.requested_urls() == [url]
    assert page.complaints() == []
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.documentElement.lang") == "en"
    assert "H2O" in page.evaluate("document.title")


def test_each_token_is_shown_and_shaded(page):
    tokens = page.evaluate(
        "[...document.querySelectorAll('#text .t')].map(t => [t.className, t.title])"
    )
    assert len(tokens) == prompt_tokens() + MAX_TOKENS
    pairs = inspected("layers")[0] * inspected("heads")[1]
    held = 0
    for position, (classes, title) in enumerate(tokens[:-1]):
        at, count, of = map(int, re.fullmatch(r"(\d+): (\d+) of (\d+)", title).groups())
        assert (at, of) == (position, pairs)
        shade = int(re.search(r"\bs(\d+)\b", classes)[1])
        assert abs(shade - 10 * count / pairs) < 1
        assert (shade == 0) == (count == 0) and (shade == 10) == (count == pairs)
        held += count
    assert "unfed" in tokens[-1][0]
    # The budget, and the token of the last step.
    assert held == 65 * pairs


def test_the_prompt_reads_as_it_was_written(page):
    shown = page.evaluate(
        """(() => {
          const text = document.querySelector('#text .text').cloneNode(true);
          for (const sign of text.querySelectorAll('i')) sign.remove();
          return text.textContent;
        })()"""
    )
    assert shown == STORY.replace("\x07", "")
    assert "␇" in page.evaluate("document.querySelector('#text .text').textContent")


def test_the_map_has_its_cells_and_agrees_with_the_text(page):
    layers = inspected("layers")[0]
    rows, columns = page.evaluate(
        """[[...document.querySelectorAll('.cells g')].map(g =>
             [...g.querySelectorAll('rect')].map(r => [r.x.baseVal.value, r.width.baseVal.value,
                                                      +r.getAttribute('class').slice(1)])),
            document.querySelector('.cells svg').viewBox.baseVal.width]"""
    )
    assert len(rows) == layers
    shades = []
    for row in rows:
        end = 0
        shades.append([])
        for x, width, shade in row:
            assert x == end
            end += width
            shades[-1] += [shade] * int(width)
        assert end == columns
    titles = page.evaluate("[...document.querySelectorAll('#text .t')].map(t => t.title)")
    counts = [int(title.split()[1]) for title in titles[:-1]]
    pairs = layers * inspected("heads")[1]
    width = -(-len(counts) // int(columns))
    for column in range(int(columns)):
        tokens = counts[column * width : (column + 1) * width]
        exact = sum(tokens) / len(tokens) / pairs
        drawn = sum(row[column] for row in shades) / layers / 10
        assert abs(exact - drawn) < 0.08, column
    box = page.evaluate("(r => [r.width, r.height])(document.querySelector('.cells svg')"
                        ".getBoundingClientRect())")
    assert box[0] > 400 and box[1] > 200


def test_recall_has_a_bar_for_each_layer(page):
    bars = page.evaluate(
        """[...document.querySelectorAll('.recall li')].map(li =>
             [li.querySelector('b').getBoundingClientRect().width /
              li.querySelector('.track').getBoundingClientRect().width, li.textContent])"""
    )
    assert len(bars) == inspected("layers")[0]
    for share, label in bars:
        assert abs(100 * share - float(label.split()[0])) < 1
    # So small a budget costs something.
    assert 0.2 < sum(share for share, _ in bars) / len(bars) < 1


def test_the_first_difference_is_marked(page):
    answers = page.evaluate(
        """[...document.querySelectorAll('#answers .answer')].map(a =>
             [a.querySelector('.same').textContent, a.querySelector('mark').textContent])"""
    )
    (full_same, full_mark), (same, mark) = answers
    assert full_same == same
    assert full_mark != mark
    assert page.evaluate("getComputedStyle(document.querySelector('mark')).textDecorationLine"
                         ) == "underline"


@pytest.mark.parametrize("width", [1280, 800])
def test_it_fits_the_window_and_is_not_blank(browser, page, width):
    page.resize(width, 1000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    points = [[x, y] for y in range(5, 1000, 7) for x in range(5, width, 7)]
    greys = grey_values(browser, page.screenshot(), points)
    assert greys[0] == 255
    dark = sum(grey < 250 for grey in greys) / len(greys)
    assert 0.05 < dark < 0.8


def test_shades_stay_apart_in_grey_and_on_paper(browser, page):
    page.call("Emulation.setEmulatedMedia", media="print")
    page.call("Emulation.setEmulatedVisionDeficiency", type="achromatopsia")
    try:
        points = page.evaluate(
            """(() => {
              document.querySelector('.legend').scrollIntoView();
              return [...document.querySelectorAll('.legend li')].map(li => {
                const box = li.getBoundingClientRect();
                return [Math.round(box.left + 3), Math.round(box.top + 3)];
              });
            })()"""
        )
        greys = grey_values(browser, page.screenshot(), points)
    finally:
        page.call("Emulation.setEmulatedMedia", media="")
        page.call("Emulation.setEmulatedVisionDeficiency", type="none")
    assert len(greys) == 11
    for lighter, darker in zip(greys, greys[1:]):
        assert lighter - darker > 5


def test_a_budget_that_covers_everything_changes_nothing(browser, tmp_path):
    page = Page(browser, make(tmp_path / "page.html", "--eviction=h2o", "--budget_tokens=400",
                              "--max_tokens=8", "--chat", prompt="Why is the sky blue?"))
    assert page.evaluate("document.querySelectorAll('mark').length") == 0
    assert "Nothing was evicted" in page.evaluate("document.querySelector('#answers').textContent")
    assert page.evaluate("document.querySelectorAll('#text .t:not(.s10)').length") == 1  # the last
    assert page.complaints() == []


@pytest.mark.parametrize("policy", ["full", "window", "streaming"])
def test_other_policies_and_models(browser, tmp_path, policy):
    budget = [] if policy == "full" else ["--budget_ratio=0.3"]
    page = Page(browser, make(tmp_path / "page.html", f"--eviction={policy}", *budget,
                              "--max_tokens=20", model=TINY_MODEL, prompt="a b c d e f g " * 5))
    assert policy.upper() in page.evaluate("document.title")
    # Heads do not differ: a token is held by all or by none.
    assert page.evaluate(
        "[...document.querySelectorAll('#text .t')].every(t => /\\bs(0|10)\\b/.test(t.className))"
    )


def test_what_is_refused(tmp_path):
    output = tmp_path / "page.html"
    for flags, words in [
        (["--eviction=h2o", "--budget_tokens=0"], "eviction.budget_tokens"),
        (["--eviction=h2o", "--budget_ratio=1.5"], "eviction.budget_ratio"),
        (["--eviction=streaming", "--budget_tokens=4", "--sink_tokens=4"], "sink_tokens"),
        (["--max_tokens=100000"], "max_tokens"),
    ]:
        result = explain(output, *flags, model=TINY_MODEL, prompt="a b c")
        assert result.returncode == 1 and words in result.stderr.decode(), result.stderr
        assert not output.exists()
    assert explain(output, "--eviction=lru").returncode == 2
    nowhere = explain(tmp_path / "no" / "page.html", prompt="a")
    assert nowhere.returncode == 1 and "No such file" in nowhere.stderr.decode()
