"""Opens streams that do not end, says "streaming" when all have begun, and reads on until killed.

  endless_client.py ADDRESS STREAMS
"""

import sys
import threading

from hydrant_client import Client, chat

client = Client(sys.argv[1])
streams = [
    client.stream(
        chat=chat("Count."), stopping={"ignore_eos": True}, eviction={"budget_tokens": 64}
    )
    for _ in range(int(sys.argv[2]))
]
for stream in streams:
    next(stream), next(stream)
print("streaming", flush=True)
for stream in streams:
    threading.Thread(target=list, args=(stream,)).start()
