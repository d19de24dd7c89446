#!/usr/bin/env python3
"""Asks a Hydrant server one question and prints the answer as it streams.

Needs only grpcio and grpcio-reflection: the server describes its own messages, so there are no
generated stubs. Copy it as a start for a client of your own.
"""

import argparse

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--server", default="localhost:50051")
parser.add_argument("question")
arguments = parser.parse_args()

channel = grpc.insecure_channel(arguments.server)
pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))


def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("hydrant.v1." + name))


Request, Response = message("GenerateRequest"), message("GenerateResponse")
generate = channel.unary_stream(
    "/hydrant.v1.Generation/Generate",
    request_serializer=Request.SerializeToString,
    response_deserializer=Response.FromString,
)

request = Request(
    chat={"messages": [{"role": "user", "content": arguments.question}]},
    sampling={"temperature": 0},
    stopping={"max_tokens": 500},
)
for event in generate(request):
    print(event.delta.text, end="", flush=True)
print()
