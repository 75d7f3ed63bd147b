"""WebSocket connections that reconnect without storms. Needs `pip install websockets` (14 or later).

    python3 websocket_client.py URL [--connections N] [--seconds S]

- A refused connection (429, 503) waits for Retry-After, plus jitter.
- A connection that was lost waits for a random time of up to 1, 2, 4 … 30 seconds, so that the clients of a pod that died do not come back
  at the same moment. The first wait is random, too.
- Only a connection that lasted a minute starts again with short waits.
"""
import argparse
import asyncio
import random
import time

import websockets
from websockets.exceptions import InvalidStatus

FIRST_WAIT, LONGEST_WAIT, STABLE = 1.0, 30.0, 60.0
counts = {"attempts": 0, "opened": 0, "refused": 0, "lost": 0}


async def stay_connected(url, on_message=lambda message: None):
    failures = 0
    while True:
        started = time.monotonic()
        wait = None
        counts["attempts"] += 1
        try:
            async with websockets.connect(url, open_timeout=20) as socket:
                counts["opened"] += 1
                async for message in socket:
                    on_message(message)
        except InvalidStatus as refusal:
            counts["refused"] += 1
            after = refusal.response.headers.get("Retry-After", "")
            if after.isdigit():
                wait = int(after) * random.uniform(1, 1.5)
        except (OSError, asyncio.TimeoutError, websockets.exceptions.WebSocketException):
            counts["lost"] += 1
        failures = 0 if time.monotonic() - started > STABLE else failures + 1
        spread = random.uniform(0, min(FIRST_WAIT * 2 ** min(failures, 10), LONGEST_WAIT))
        await asyncio.sleep(spread if wait is None else max(wait, spread))


async def main():
    parser = argparse.ArgumentParser(description="Keeps connections open until it is ended.")
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=None, help="end after this time and print what happened")
    options = parser.parse_args()
    tasks = [asyncio.create_task(stay_connected(options.url)) for _ in range(options.connections)]
    try:
        await asyncio.wait(tasks, timeout=options.seconds)
    finally:
        for task in tasks:
            task.cancel()
        print(", ".join(f"{name} {count}" for name, count in counts.items()), flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
