"""What no HTTP/2 or gRPC library sends: bytes on a plain socket, from random.Random alone.

Each function of KINDS returns the bytes of one connection.
"""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS = 1, 4
GENERATE = "/hydrant.v1.Generation/Generate"
# GenerateRequest{text: "Hi"}
HI = b"\x22\x02Hi"


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    length = len(payload) if length is None else length
    return struct.pack(">I", length)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(**values):
    """By number, as in i4=0 for INITIAL_WINDOW_SIZE."""
    entries = [struct.pack(">HI", int(name[1:]), value) for name, value in values.items()]
    return frame(SETTINGS, payload=b"".join(entries))


def literal(name, value):
    """HPACK: not indexed, not compressed; both shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def headers(stream, path=GENERATE, flags=END_HEADERS, **more):
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "soak"}
    fields |= {"content-type": "application/grpc", "te": "trailers"} | more
    block = b"".join(literal(name, value) for name, value in fields.items())
    return frame(HEADERS, flags, stream, block)


def message(payload, length=None, compressed=0):
    return struct.pack(">BI", compressed, len(payload) if length is None else length) + payload


def call(stream, body, flags=END_STREAM):
    return headers(stream) + frame(DATA, flags, stream, body)


HELLO = PREFACE + settings()


def garbage(random):
    return random.randbytes(random.randrange(1, 400))


def other_protocol(random):
    return random.choice(
        [b"GET / HTTP/1.1\r\nHost: soak\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
    )


def half_a_preface(random):
    return PREFACE[: random.randrange(len(PREFACE))]


def random_frames(random):
    frames = []
    for _ in range(random.randrange(1, 8)):
        payload = random.randbytes(random.randrange(64))
        stream = random.choice([0, 1, 1, 2, 3, 2**31 - 1])
        frames.append(frame(random.randrange(12), random.randrange(256), stream, payload))
    return HELLO + b"".join(frames)


def frame_of_wrong_length(random):
    length = random.choice([0, 1, 2**14 + 1, 2**24 - 1])
    return HELLO + headers(1) + frame(random.randrange(10), END_STREAM, 1, HI, length)


def bad_header_block(random):
    return HELLO + frame(HEADERS, END_HEADERS | END_STREAM, 1, random.randbytes(40))


def headers_without_end(random):
    """Continued for ever, each longer than the limit in all."""
    block = literal("x-more", "m" * 100) * 100
    return HELLO + headers(1, flags=0) + frame(CONTINUATION, 0, 1, block) * random.randrange(1, 6)


def headers_without_path(random):
    block = literal(":method", random.choice(["GET", "POST", ""]))
    return HELLO + frame(HEADERS, END_HEADERS | END_STREAM, 1, block)


def message_of_wrong_length(random):
    """Longer or shorter than its prefix says, over any limit, or none at all."""
    body = random.choice(
        [
            message(HI, length=random.choice([0, 1, 3, 5, 1000, 2**31, 2**32 - 1])),
            message(HI)[: random.randrange(9)],
            message(HI) + message(HI),
            b"",
        ]
    )
    return HELLO + call(1, body)


def compressed_but_not(random):
    return HELLO + call(1, message(HI, compressed=random.choice([1, 2, 255])))


def truncated_request(random):
    """Fields that say they are longer than the message."""
    body = random.choice([b"\x22\x7fHi", b"\x3a\xff\xff\xff\xff\x0f", b"\x22", b"\xff" * 10, b"\x0b"])
    return HELLO + call(1, message(body))


def half_a_call(random):
    """The client goes in the midst of its request."""
    whole = call(1, message(HI))
    return HELLO + whole[: random.randrange(1, len(whole))]


def no_window(random):
    """A whole request whose answer may never be sent."""
    return PREFACE + settings(i4=0) + call(1, message(HI))


def windows_that_overflow(random):
    update = struct.pack(">I", random.choice([0, 2**31 - 1]))
    return HELLO + call(1, message(HI)) + frame(WINDOW_UPDATE, 0, random.choice([0, 1]), update) * 2


def rapid_reset(random):
    """Begins calls and takes them back, as fast as they can be written."""
    reset = struct.pack(">I", 8)
    streams = range(1, 2 * random.randrange(10, 100), 2)
    return HELLO + b"".join(
        call(stream, message(HI)) + frame(RST_STREAM, 0, stream, reset) for stream in streams
    )


def ping_flood(random):
    return HELLO + frame(PING, 0, 0, b"soaksoak") * 200


def streams_out_of_order(random):
    return HELLO + call(5, message(HI)) + call(random.choice([1, 2, 3, 5]), message(HI))


def settings_out_of_range(random):
    values = random.choice([{"i4": 2**32 - 1}, {"i5": 1}, {"i5": 2**32 - 1}, {"i2": 7}, {"i3": 0}])
    return PREFACE + settings(**values) + call(1, message(HI))


KINDS = [
    garbage, other_protocol, half_a_preface, random_frames, frame_of_wrong_length,
    bad_header_block, headers_without_end, headers_without_path, message_of_wrong_length,
    compressed_but_not, truncated_request, half_a_call, no_window, windows_that_overflow,
    rapid_reset, ping_flood, streams_out_of_order, settings_out_of_range,
]  # fmt: skip


def send(random, address, kind):
    """One connection: sends, perhaps listens a little, and goes in one of three ways."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(kind(random))
            if random.random() < 0.5:
                connection.settimeout(random.uniform(0, 0.2))
                while connection.recv(1 << 16):
                    pass
            leave = random.randrange(3)
            if leave == 1:  # with a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif leave == 2:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server has closed it, or says nothing more
