"""A client process of soak.py: does all that clients do, well and badly, until SIGTERM or killed.

  soak_client.py ADDRESS SEED PROBES      (PROBES: JSON, a list of [request, token ids])

What each thread asks is a function of SEED. Says on standard output, a line each, what the server
did that it may not; then, at SIGTERM, ends with 0 if there was nothing.
"""

import faulthandler
import json
import random
import signal
import sys
import threading
import time

import grpc

import malformed_frames
from hydrant_client import Answer, Client

THREADS = 3
Code = grpc.StatusCode
LIMIT = 256 << 10  # --max_message_bytes of the server
WORDS = "the of and a in is it you that he was for on are with as I his they be at".split()
# Every call may meet a full queue, a tenant's limit, a queue timeout, or be a slow reader.
ALWAYS = {Code.OK, Code.RESOURCE_EXHAUSTED}


class Violation(Exception):
    pass


class Worker:
    """One thread's clients and choices."""

    def __init__(self, address, seed, probes, stop):
        self.address = address
        self.name = seed
        self.random = random.Random(seed)
        self.probes = probes
        self.stop = stop
        self.client = self.connect()
        self.vocabulary = self.client.call("GetModelInfo", timeout=60).vocab_size
        self.actions = []

    def connect(self):
        return Client(self.address, options=[("grpc.use_local_subchannel_pool", 1)])

    def run(self):
        """Returns whether all was as it may be."""
        weights = [weight for _, weight in self.KINDS]
        kinds = [kind for kind, _ in self.KINDS]
        good = True
        while not self.stop.is_set():
            (kind,) = self.random.choices(kinds, weights)
            self.actions.append(kind.__name__)
            try:
                kind(self)
            except Exception as error:
                good = False
                where = f"{self.name}, action {len(self.actions)}, after {self.actions[-5:]}"
                print(f"{where}: {type(error).__name__}: {error}", flush=True)
        return good

    # ---- requests ----

    def text(self, words):
        return " ".join(self.random.choices(WORDS, k=words))

    def maybe(self, share, make):
        return make() if self.random.random() < share else None

    def prompt(self):
        r = self.random
        length = r.choice([1, 3, 20, 60, 120])
        kind = r.randrange(3)
        if kind == 0:
            return {"text": self.text(length)}
        if kind == 1:
            ids = [r.randrange(self.vocabulary) for _ in range(2 * length)]
            return {"token_ids": {"ids": ids}}
        roles = ["system", "user", "assistant", "user"]
        messages = [{"role": role, "content": self.text(length // 3 + 1)} for role in roles]
        return {"chat": {"messages": messages[r.choice([0, 1]) : r.choice([2, 4])]}}

    def eviction(self):
        r = self.random
        policy = r.choice([None, "FULL", "WINDOW", "STREAMING", "H2O", "H2O"])
        if policy in (None, "FULL"):
            return {} if policy is None else {"policy": policy}
        size = r.choice([{"budget_tokens": r.choice([2, 17, 64, 200])}, {"budget_ratio": 0.2}])
        fields = {"policy": policy} | size
        fields["prefill_eviction"] = r.choice(["AFTER_PROMPT", "AFTER_PROMPT", "PER_CHUNK"])
        fields["audit"] = r.random() < 0.3
        return fields

    def request(self, **more):
        """Any request that the server must take."""
        r = self.random
        sampling = {
            "temperature": r.choice([None, 0, 0.7, 1.5]),
            "top_p": self.maybe(0.3, lambda: r.uniform(0.1, 1)),
            "top_k": self.maybe(0.3, lambda: r.randrange(50)),
            "min_p": self.maybe(0.1, lambda: r.uniform(0, 0.2)),
            "repetition_penalty": self.maybe(0.2, lambda: r.uniform(0.8, 1.5)),
            "presence_penalty": self.maybe(0.1, lambda: r.uniform(-2, 2)),
            "frequency_penalty": self.maybe(0.1, lambda: r.uniform(-2, 2)),
            "seed": self.maybe(0.5, lambda: r.getrandbits(64)),
            "logit_bias": {r.randrange(self.vocabulary): r.uniform(-100, 100) for _ in range(3)},
        }
        stopping = {
            "max_tokens": r.choice([1, 2, 10, 50, 150]),
            "stop": r.choice([[], ["e"], ["th", "a b", "\n\n"], [self.text(3)]]),
            "stop_token_ids": self.maybe(0.2, lambda: [r.randrange(self.vocabulary)]),
            "ignore_eos": r.random() < 0.5,
            "include_stop_str_in_output": r.random() < 0.3,
        }
        output = {
            "logprobs": self.maybe(0.2, lambda: r.choice([0, 1, 20])),
            "prompt_logprobs": self.maybe(0.1, lambda: r.choice([0, 5])),
            "echo": r.random() < 0.1,
            "skip_special_tokens": r.random() < 0.8,
        }
        fields = {
            "priority": self.maybe(0.3, lambda: r.randint(-100, 100)),
            "sampling": {name: value for name, value in sampling.items() if value is not None},
            "stopping": {name: value for name, value in stopping.items() if value is not None},
            "output": {name: value for name, value in output.items() if value is not None},
            "eviction": self.eviction(),
        }
        return self.prompt() | {k: v for k, v in fields.items() if v is not None} | more

    def endless(self, **more):
        return self.request(
            stopping={"ignore_eos": True}, eviction={"policy": "H2O", "budget_tokens": 64}, **more
        )

    def metadata(self):
        return [("tenant", self.random.choice(["a", "b", "c", "d"]))]

    def open(self, timeout=60, **request):
        return self.client.stream(timeout, self.metadata(), **request)

    # ---- what may come of them ----

    def outcome(self, stream, allowed, events=None):
        """Reads `events` of a stream, or all; its code. OK if and only if finished came."""
        answer = Answer()
        try:
            for number, response in enumerate(stream):
                answer.add(response)
                if number + 1 == events:
                    return None, answer
            code = Code.OK
        except grpc.RpcError as error:
            code = error.code()
            if code not in allowed | ALWAYS:
                raise Violation(f"{code.name}: {error.details()}") from None
        if (code == Code.OK) != (answer.finished is not None):
            raise Violation(f"{code.name}, and finished: {answer.finished}")
        if code == Code.OK and Code.OK not in allowed:
            raise Violation(f"OK, where only {[c.name for c in allowed]} may come")
        return code, answer

    # ---- actions ----

    def complete(self):
        code, answer = self.outcome(self.open(**self.request()), {Code.OK})
        if code == Code.OK:
            usage = answer.finished.usage
            if usage.prompt_tokens != answer.prompt_info.prompt_tokens or usage.peak_kv_tokens < 1:
                raise Violation(f"a usage that cannot be: {usage}")

    def probe(self):
        """The same whatever else the server does."""
        request, expected = self.random.choice(self.probes)
        code, answer = self.outcome(self.open(**request), {Code.OK})
        if code == Code.OK and answer.token_ids != expected:
            raise Violation(f"{request} gave {answer.token_ids} instead of {expected}")

    def cancel(self):
        stream = self.open(**self.endless())
        self.outcome(stream, {Code.OK}, events=self.random.choice([1, 2, 5, 20]))
        stream.cancel()

    def cancel_at_once(self):
        stream = self.open(**self.request())
        time.sleep(self.random.choice([0, 0, 0.001, 0.005]))
        stream.cancel()

    def abort(self):
        name = f"{self.name}/{len(self.actions)}"
        stream = self.open(**self.endless(request_id=name))
        code, _ = self.outcome(stream, {Code.OK}, events=1)
        if code is not None:
            return
        again = self.open(**self.request(request_id=name))
        self.outcome(again, {Code.ALREADY_EXISTS, Code.OK})
        try:
            self.client.call("Abort", timeout=60, request_id=name)
        except grpc.RpcError as error:
            if error.code() != Code.NOT_FOUND:
                raise
        for _ in self.errors_of(stream, {Code.CANCELLED}):
            pass

    def errors_of(self, stream, allowed):
        try:
            yield from stream
        except grpc.RpcError as error:
            if error.code() not in allowed | ALWAYS:
                raise Violation(f"{error.code().name}: {error.details()}") from None

    def deadline(self):
        timeout = self.random.choice([0.0001, 0.001, 0.01, 0.05, 0.2])
        self.outcome(self.open(timeout, **self.endless()), {Code.OK, Code.DEADLINE_EXCEEDED})

    def slow_reader(self):
        """Longer answers than the windows of HTTP/2 and the server's buffer hold together."""
        ids = [self.random.randrange(3, self.vocabulary) for _ in range(4)]
        stream = self.open(
            token_ids={"ids": ids}, stopping={"ignore_eos": True}, output={"logprobs": 100}
        )
        answer = Answer()
        for response in self.errors_of(stream, {Code.OK}):
            answer.add(response)
            self.stop.wait(self.random.choice([0, 0.3]))
            if self.random.random() < 0.1:
                stream.cancel()
                return

    def bad_parameter(self):
        change = self.random.choice(
            [
                {"sampling": {"top_p": 7}},
                {"sampling": {"temperature": float("nan")}},
                {"stopping": {"max_tokens": -1}},
                {"stopping": {"stop": [""]}},
                {"eviction": {"policy": "FULL", "budget_tokens": 5}},
                {"token_ids": {"ids": [2**32 - 1]}},
                {"token_ids": {"ids": [5] * 600}},
                {"text": ""},
                {"priority": 1000},
            ]
        )
        self.outcome(self.open(**self.request() | change), {Code.INVALID_ARGUMENT})

    def unknown_model(self):
        self.outcome(self.open(model="no-such-model", text="Hi"), {Code.NOT_FOUND})

    def too_large(self):
        """Over the limit of a message; or below it, and far over that of the context."""
        size = self.random.choice([LIMIT - 100, LIMIT + 1, 4 * LIMIT])
        self.outcome(self.open(text="x " * (size // 2)), {Code.INVALID_ARGUMENT})

    def too_much_metadata(self):
        stream = self.client.stream(60, [("x-note", "n" * 20_000)], text="Hi")
        self.outcome(stream, {Code.INVALID_ARGUMENT})

    def malformed_message(self):
        """A request of which some bytes are changed, and perhaps the end is missing."""
        r = self.random
        whole = bytearray(self.client.message("Generate", **self.request()).SerializeToString())
        for _ in range(r.randrange(1, 4)):
            whole[r.randrange(len(whole))] = r.randrange(256)
        message = bytes(whole[: r.choice([len(whole), r.randrange(len(whole))])])
        generate = self.client.channel.unary_stream("/hydrant.v1.Generation/Generate")
        allowed = {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.UNIMPLEMENTED}
        for _ in self.errors_of(generate(message, timeout=60), allowed):
            pass

    def malformed_frames(self):
        kind = self.random.choice(malformed_frames.KINDS)
        malformed_frames.send(self.random, self.address, kind)

    def overload(self):
        """More at once than the queue holds; half of them are left."""
        streams = [self.open(**self.request()) for _ in range(40)]
        for stream in streams[::2]:
            stream.cancel()
        for stream in streams[1::2]:
            self.outcome(stream, {Code.OK})

    def other_methods(self):
        text = self.text(30)
        tokens = self.client.call("Tokenize", timeout=60, text=text).token_ids
        self.client.call("Detokenize", timeout=60, token_ids=tokens)
        load = self.client.load()
        if not 0 <= load.kv_blocks_free <= load.kv_blocks_total or not load.healthy:
            raise Violation(f"a load that cannot be: {load}")

    def reconnect(self):
        """Leaves a call open on the connection that it closes."""
        self.open(**self.endless())
        self.client.close()
        self.client = self.connect()

    KINDS = [
        (complete, 30), (probe, 10), (cancel, 10), (cancel_at_once, 6), (abort, 4), (deadline, 6),
        (slow_reader, 1), (bad_parameter, 5), (unknown_model, 1), (too_large, 3),
        (too_much_metadata, 1), (malformed_message, 6), (malformed_frames, 12), (overload, 1),
        (other_methods, 4), (reconnect, 1),
    ]  # fmt: skip


def main():
    address, seed, probes = sys.argv[1:]
    faulthandler.enable()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    results = []

    def work(thread):
        worker = Worker(address, f"{seed}.{thread}", json.loads(probes), stop)
        results.append(worker.run())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Only the main thread handles signals, and one that comes just before it waits does not end
        # the wait.
        while thread.is_alive():
            thread.join(1)
    sys.exit(0 if results == [True] * THREADS else 1)


main()
