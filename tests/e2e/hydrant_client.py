"""A client of hydrant.v1.Generation, or of another service, that learns every message from the
server's reflection."""

from dataclasses import dataclass, field

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status

SERVICE = "hydrant.v1.Generation"


@dataclass
class Answer:
    """One whole stream. Collecting it checks the order that every stream must have."""

    prompt_info: object = None
    deltas: list = field(default_factory=list)
    finished: object = None

    @property
    def text(self):
        return "".join(delta.text for delta in self.deltas)

    @property
    def token_ids(self):
        return [token for delta in self.deltas for token in delta.token_ids]

    @property
    def logprobs(self):
        return [entry for delta in self.deltas for entry in delta.logprobs]

    @property
    def reason(self):
        """"STOP" or "LENGTH"."""
        return self.finished.Reason.Name(self.finished.reason)

    def add(self, response):
        assert self.finished is None, "an event after finished"
        event = response.WhichOneof("event")
        if event == "prompt_info":
            assert self.prompt_info is None, "a second prompt_info"
            self.prompt_info = response.prompt_info
            return
        assert self.prompt_info is not None, f"{event} before prompt_info"
        if event == "delta":
            self.deltas.append(response.delta)
        else:
            assert event == "finished", f"an event that is none: {response}"
            self.finished = response.finished


class Client:
    """Requests are given as keyword arguments: plain values, dicts and lists, enums by name."""

    def __init__(self, address, options=(), credentials=None, service=SERVICE):
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options=list(options))
        else:
            self.channel = grpc.secure_channel(address, credentials, options=list(options))
        self.health = health_pb2_grpc.HealthStub(self.channel)
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        self._methods = {}
        self.descriptor = pool.FindServiceByName(service)
        for method in self.descriptor.methods:
            request = message_factory.GetMessageClass(method.input_type)
            response = message_factory.GetMessageClass(method.output_type)
            kind = "unary_stream" if method.server_streaming else "unary_unary"
            stub = getattr(self.channel, kind)(
                f"/{service}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            self._methods[method.name] = (stub, request)

    def close(self):
        self.channel.close()

    def call(self, method, timeout=None, metadata=None, **request):
        stub, message = self._methods[method]
        return stub(message(**request), timeout=timeout, metadata=metadata)

    def message(self, method, **request):
        return self._methods[method][1](**request)

    def stream(self, timeout=None, metadata=None, **request):
        """The open Generate call: iterate it, or cancel() it."""
        return self.call("Generate", timeout, metadata, **request)

    def generate(self, timeout=None, metadata=None, **request):
        """The whole Answer; raises grpc.RpcError unless the stream ended with OK."""
        answer = Answer()
        for response in self.stream(timeout, metadata, **request):
            answer.add(response)
        assert answer.finished is not None, "the stream ended with OK, but without finished"
        return answer

    def load(self):
        return self.call("GetLoad")


def refusal_details(error):
    """The google.rpc details of an error, by the names of their types."""
    status = rpc_status.from_call(error)
    assert status is not None, f"no details with: {error}"
    details = {}
    for entry in status.details:
        name = entry.TypeName().rpartition(".")[2]
        details[name] = getattr(error_details_pb2, name)()
        assert entry.Unpack(details[name])
    assert details["ErrorInfo"].domain == "hydrant"
    return details


def refusal(client, **request):
    """The error of a request that must be refused, with its details."""
    with pytest.raises(grpc.RpcError) as raised:
        client.generate(**request)
    return raised.value, refusal_details(raised.value)


def chat(text):
    return {"messages": [{"role": "user", "content": text}]}
