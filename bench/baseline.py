"""The bare loop: sign, POST, read the answer, with the product's transport and nothing else.

`python -m bench.baseline URL COUNT` prints the CPU microseconds of one round. `measured` runs two of them at
once, because the product works in two processes and a busy neighbour slows both alike.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent
EVENT_ID = "evt_01K6ZZZZZZZZZZZZZZZZZZZZZZ"
WARM_UP = 200


def loop(url: str, count: int) -> float:
    """Return the CPU microseconds of one request, of `count` after a warm-up."""
    one = _request(url)
    for _ in range(WARM_UP):
        one()
    started = time.process_time()
    for _ in range(count):
        one()
    return (time.process_time() - started) / count * 1e6


def _request(url: str) -> Callable[[], None]:
    from bench import sample
    from webhooks_app.core.signing import SigningKey, sign
    from webhooks_app.destinations.network import net_options
    from webhooks_app.net.http import build_transport
    from webhooks_app.net.transport import Request

    transport, keys = build_transport(net_options()), [SigningKey(os.urandom(32))]
    body = sample.body(EVENT_ID)

    def one() -> None:
        moment = int(time.time())
        headers = (
            ("Content-Type", "application/json"),
            ("User-Agent", "baseline"),
            ("webhook-id", EVENT_ID),
            ("webhook-timestamp", str(moment)),
            ("webhook-signature", sign(keys, id=EVENT_ID, timestamp=moment, body=body)),
        )
        request = Request(
            url=url, headers=headers, body=body, connect_timeout=5, total_timeout=15, reply_bytes=4096
        )
        result = transport.post(request)
        if not result.ok:
            raise RuntimeError(f"the receiver is out of order: {result.error} {result.detail}")

    return one


def measured(url: str, count: int, *, processes: int = 2) -> int:
    """Return the mean of several loops in processes of their own, run at the same time."""
    command = [sys.executable, "-m", "bench.baseline", url, str(count)]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) for _ in range(processes)]
    outputs = [each.communicate()[0] for each in loops]
    if any(each.returncode for each in loops):
        raise RuntimeError("the bare loop failed; what it said is above")
    return round(mean(float(output) for output in outputs))


if __name__ == "__main__":
    print(json.dumps(loop(sys.argv[1], int(sys.argv[2]))))
