"""Samples the worker's processes with py-spy while something is measured, and prints where the time went.

py-spy is no dependency: `pip install py-spy` in the environment. It counts the function that holds the
interpreter lock, so system calls are not in it; the CPU of each kind of thread is printed beside that. The
figures of a profiled run are not comparable: sampling costs CPU of its own.
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench import usage

RATE = 250
SHOWN = 40
PROGRAM = Path(sys.executable).with_name("py-spy")
_LINE = re.compile(r":[0-9]+\)")


@contextlib.contextmanager
def sampled(pids: Sequence[int]) -> Iterator[None]:
    """Sample the processes for the length of the block, then print what was found to stderr."""
    if not PROGRAM.exists():
        print("--profile needs py-spy: pip install py-spy", file=sys.stderr)
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(pid) for pid in pids]
        samplers = [_sampler(file) for file in files]
        before = _by_thread(pids)
        yield
        _print_threads(_by_thread(pids) - before)
        for sampler in samplers:
            sampler.send_signal(signal.SIGINT)
            sampler.wait(30)
        _print_stacks([line for file in files if file.exists() for line in file.read_text().splitlines()])


def _sampler(file: Path) -> subprocess.Popen[bytes]:
    options = ["record", "--gil", "--nonblocking", "-f", "raw", "-r", str(RATE), "-d", "3600"]
    command = [str(PROGRAM), *options, "-p", file.name, "-o", str(file)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _by_thread(pids: Sequence[int]) -> Counter[str]:
    """Return CPU milliseconds by thread name."""
    found = Counter[str]()
    for pid in pids:
        dump = subprocess.run(
            [str(PROGRAM), "dump", "--json", "--nonblocking", "-p", str(pid)], capture_output=True
        )
        for thread in json.loads(dump.stdout or "[]"):
            task = Path(f"/proc/{pid}/task/{thread['os_thread_id']}/stat")
            found[thread["thread_name"]] += round(usage.cpu_of(task) * 1000)
    return found


def _print_threads(spent: Counter[str]) -> None:
    total = max(1, sum(spent.values()))
    for name, used in spent.most_common():
        print(f"{100 * used / total:6.1f} % of {total} ms CPU: {name}", file=sys.stderr)


def _print_stacks(lines: Iterable[str]) -> None:
    own, within, total = Counter[str](), Counter[str](), 0
    for line in lines:
        stack, _, number = line.rpartition(" ")
        frames, times = [_LINE.sub(")", frame) for frame in stack.split(";")], int(number)
        total += times
        own[frames[-1]] += times
        within.update(dict.fromkeys(frames, times))
    for title, counter in (("own", own), ("with callees", within)):
        print(f"-- {title}, % of {total} samples", file=sys.stderr)
        for frame, samples in counter.most_common(SHOWN):
            print(f"{100 * samples / max(1, total):6.1f}  {frame}", file=sys.stderr)
