"""What a Generate stream gives: the answer, its order, its parameters, its accounting."""

import json
import subprocess
import sys

import pytest

from hydrant_client import chat
from server_process import BINARY, TEST_DATA

QUESTION = "What is the capital of France?"
GREEDY = {"temperature": 0}
STORY = {"chat": chat("Tell me a story about a fox and a crow."), "sampling": GREEDY}


@pytest.fixture(scope="module")
def story(smollm):
    """A greedy answer that later tests cut short."""
    return smollm.client.generate(**STORY, stopping={"max_tokens": 60})


def test_a_real_model_answers(smollm):
    answer = smollm.client.generate(chat=chat(QUESTION), sampling=GREEDY)
    assert "Paris" in answer.text
    assert answer.reason == "STOP"
    assert answer.finished.WhichOneof("matched") == "stop_token_id"


@pytest.mark.parametrize("with_python", [True, False], ids=["call.py", "hydrant generate"])
def test_what_readme_tells_newcomers_to_type(smollm, with_python):
    if with_python:
        call = TEST_DATA.parent.parent / "deploy" / "call.py"
        command = [sys.executable, str(call), f"--server={smollm.address}", QUESTION]
    else:
        server = f"--server={smollm.address}"
        command = [BINARY, "generate", server, "--temperature=0", "--chat", QUESTION]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "Paris" in run.stdout


def test_usage_adds_up(smollm, story):
    usage = story.finished.usage
    info = story.prompt_info
    assert story.reason == "LENGTH"
    assert len(story.token_ids) == usage.completion_tokens == info.max_tokens == 60
    assert usage.prompt_tokens == info.prompt_tokens > 10
    assert info.model == smollm.client.call("GetModelInfo").name
    assert info.request_id
    # Every token but the last one is fed, and nothing was evicted.
    assert usage.evicted_tokens == 0
    assert usage.peak_kv_tokens in (info.prompt_tokens + 59, info.prompt_tokens + 60)
    assert usage.kv_bytes > 0
    assert usage.prefill_seconds > 0 and usage.decode_seconds > 0
    ids = [token for delta in story.deltas for token in delta.token_ids]
    assert smollm.client.call("Detokenize", token_ids=ids).text == story.text


def test_the_same_prompt_as_chat_text_and_ids(smollm, story):
    tokens = smollm.client.call("Tokenize", chat=STORY["chat"])
    stopping = {"max_tokens": 60}
    from_ids = smollm.client.generate(
        token_ids={"ids": tokens.token_ids}, sampling=GREEDY, stopping=stopping
    )
    from_text = smollm.client.generate(text=tokens.rendered, sampling=GREEDY, stopping=stopping)
    assert from_ids.token_ids == from_text.token_ids == story.token_ids


def test_a_stop_string_ends_the_text_before_it(smollm, story):
    middle = len(story.text) // 2
    stop = story.text[middle : middle + 7]
    expected = story.text[: story.text.index(stop)]
    for include in (False, True):
        answer = smollm.client.generate(
            **STORY,
            stopping={"max_tokens": 60, "stop": [stop], "include_stop_str_in_output": include},
        )
        assert answer.reason == "STOP"
        assert answer.finished.stop == stop
        assert answer.text == expected + (stop if include else "")
        assert len(answer.token_ids) < 60


def test_text_held_back_for_a_stop_string_is_given_at_the_end(smollm, story):
    almost = story.text[-4:] + " never said"
    answer = smollm.client.generate(**STORY, stopping={"max_tokens": 60, "stop": [almost]})
    assert answer.reason == "LENGTH"
    assert answer.text == story.text


def test_a_stop_token_ends_the_stream(smollm, story):
    stop = story.token_ids[30]
    answer = smollm.client.generate(**STORY, stopping={"max_tokens": 60, "stop_token_ids": [stop]})
    assert answer.reason == "STOP"
    assert answer.finished.stop_token_id == stop
    length = story.token_ids.index(stop) + 1
    assert answer.token_ids == story.token_ids[:length]


def test_min_tokens_and_ignore_eos_go_past_the_end(smollm):
    question = {"chat": chat(QUESTION), "sampling": GREEDY}
    short = smollm.client.generate(**question)
    assert len(short.token_ids) < 30
    longer = smollm.client.generate(**question, stopping={"min_tokens": 40, "max_tokens": 80})
    assert len(longer.token_ids) >= 40
    ignoring = smollm.client.generate(**question, stopping={"ignore_eos": True, "max_tokens": 50})
    assert ignoring.reason == "LENGTH"
    assert len(ignoring.token_ids) == 50


def test_logit_bias_forces_and_forbids(smollm, story):
    forced = smollm.client.generate(
        **STORY | {"sampling": GREEDY | {"logit_bias": {1000: 100}}}, stopping={"max_tokens": 5}
    )
    assert forced.token_ids == [1000] * 5
    first = story.token_ids[0]
    forbidden = smollm.client.generate(
        **STORY | {"sampling": GREEDY | {"logit_bias": {first: -100}}}, stopping={"max_tokens": 5}
    )
    assert first not in forbidden.token_ids


def test_a_seed_repeats_and_an_unset_one_is_told(smollm):
    request = {"chat": chat("Invent a name for a ship."), "stopping": {"max_tokens": 24}}

    def sample(**sampling):
        return smollm.client.generate(**request, sampling={"temperature": 1.5} | sampling)

    seven = sample(seed=7)
    assert sample(seed=7).token_ids == seven.token_ids
    assert sample(seed=8).token_ids != seven.token_ids
    drawn = sample()
    seed = drawn.prompt_info.sampling.seed
    assert drawn.prompt_info.sampling.HasField("seed")
    assert sample(seed=seed).token_ids == drawn.token_ids
    assert sample().prompt_info.sampling.seed != seed


def test_log_probabilities(smollm, story):
    answer = smollm.client.generate(
        **STORY, stopping={"max_tokens": 20}, output={"logprobs": 5, "prompt_logprobs": 2}
    )
    assert [entry.token_id for entry in answer.logprobs] == story.token_ids[:20]
    for entry in answer.logprobs:
        best = [top.logprob for top in entry.top]
        assert len(best) == 5 and best == sorted(best, reverse=True)
        assert best[0] <= 0
        # Greedy: the token drawn is the best one.
        assert entry.token_id == entry.top[0].token_id
        assert entry.logprob == pytest.approx(best[0], abs=1e-5)
    prompt = answer.prompt_info.prompt_logprobs
    ids = smollm.client.call("Tokenize", chat=STORY["chat"]).token_ids
    assert [entry.token_id for entry in prompt] == list(ids)
    assert not prompt[0].HasField("logprob")
    assert all(entry.logprob <= 0 and len(entry.top) == 2 for entry in prompt[1:])


def test_echo_gives_the_prompt_first(smollm, story):
    text = "The quick brown fox"
    ids = list(smollm.client.call("Tokenize", text=text).token_ids)
    request = {"text": text, "sampling": GREEDY, "stopping": {"max_tokens": 5}}
    plain = smollm.client.generate(**request)
    echoed = smollm.client.generate(**request, output={"echo": True})
    assert echoed.text == text + plain.text
    assert echoed.token_ids == ids + plain.token_ids
    assert echoed.finished.usage.completion_tokens == 5


def test_characters_of_several_tokens_arrive_whole(smollm):
    text = "Grüße, 世界! 🦊🐦"
    ids = list(smollm.client.call("Tokenize", text=text).token_ids)
    answer = smollm.client.generate(
        token_ids={"ids": ids}, output={"echo": True}, stopping={"max_tokens": 1}, sampling=GREEDY
    )
    assert answer.text.startswith(text)
    assert "\ufffd" not in answer.text[: len(text)]


def golden_policies():
    golden = json.loads((TEST_DATA / "golden" / "llama-gqa" / "golden.json").read_text())
    cases = [({"policy": "FULL"}, case) for case in golden["generate"]]
    for case in golden["h2o"]:
        sink, heavy, recent = (case["policy"][key] for key in ("sink", "heavy", "recent"))
        policy = "H2O" if heavy else "STREAMING" if sink else "WINDOW"
        eviction = {
            "policy": policy,
            "budget_tokens": sink + heavy + recent,
            "sink_tokens": sink,
            "recent_tokens": recent,
        }
        cases.append((eviction, case))
    return [
        pytest.param(eviction, case, id="-".join(str(value) for value in eviction.values()))
        for eviction, case in cases
    ]


@pytest.mark.parametrize("eviction, case", golden_policies())
def test_golden_tokens_under_each_policy(tiny, eviction, case):
    expected = case["greedy_ids"]
    answer = tiny.client.generate(
        token_ids={"ids": case["prompt_ids"]},
        sampling=GREEDY,
        stopping={"ignore_eos": True, "max_tokens": len(expected)},
        eviction=eviction,
    )
    assert answer.token_ids == expected
    applied = answer.prompt_info.eviction
    assert applied.Policy.Name(applied.policy) == eviction["policy"]
    length = len(case["prompt_ids"]) + len(expected) - 1
    usage = answer.finished.usage
    if eviction["policy"] == "FULL":
        assert usage.evicted_tokens == 0
        return
    budget = eviction["budget_tokens"]
    assert applied.budget_tokens == budget
    assert applied.recent_tokens == eviction["recent_tokens"]
    # Every token fed was evicted or is held: the budget, and the last step's own.
    assert usage.evicted_tokens == length - (budget + 1)
    assert usage.peak_kv_tokens <= max(len(case["prompt_ids"]), budget) + 1


def test_a_budget_that_holds_while_the_prompt_is_read(smollm):
    request = {
        "token_ids": {"ids": [260, 198, 4103, 43525] * 300},
        "sampling": GREEDY,
        "stopping": {"ignore_eos": True, "max_tokens": 4},
    }
    eviction = {"policy": "H2O", "budget_tokens": 64}
    whole = smollm.client.generate(**request, eviction=eviction)
    assert whole.finished.usage.peak_kv_tokens == 1200
    chunked = smollm.client.generate(
        **request, eviction=eviction | {"prefill_eviction": "PER_CHUNK"}
    )
    applied = chunked.prompt_info.eviction
    assert applied.PrefillEviction.Name(applied.prefill_eviction) == "PER_CHUNK"
    assert chunked.finished.usage.peak_kv_tokens <= 64 + 512
    assert chunked.finished.usage.kv_bytes < whole.finished.usage.kv_bytes


def test_a_budget_as_a_share_of_the_request(tiny):
    answer = tiny.client.generate(
        token_ids={"ids": [9] * 100},
        stopping={"ignore_eos": True, "max_tokens": 100},
        eviction={"policy": "WINDOW", "budget_ratio": 0.25},
    )
    assert answer.prompt_info.eviction.budget_tokens == 50
    assert answer.finished.usage.peak_kv_tokens == 100
    assert answer.finished.usage.evicted_tokens == 199 - 51


@pytest.mark.parametrize(
    "flags, told",
    [
        (["--budget_tokens=20"], "[recall 0."),
        (["--budget_tokens=200"], "[recall 1: nothing was lost]"),
    ],
)
def test_an_audit_tells_what_eviction_loses(tiny, flags, told):
    run = subprocess.run(
        [BINARY, "generate", f"--server={tiny.address}", "--audit", "--temperature=0", *flags]
        + ["--eviction=h2o", "--max_tokens=40", "--ignore_eos", "the licensor grants " * 10],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert told in run.stderr
