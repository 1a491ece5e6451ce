"""Command line: `python -m bench [--quick] [--only NAME] [--repeat N] [--profile]`."""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from bench.results import Result
from bench.rows import ROWS, Run, load
from bench.servers import started

RESULTS = Path(__file__).with_name("results")


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measurements, one JSON line each.")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, under a minute")
    parser.add_argument("--only", action="append", metavar="NAME", help=f"one of: {', '.join(ROWS)}")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run each measurement N times")
    parser.add_argument("--profile", action="store_true", help="sample the worker with py-spy, if installed")
    options = parser.parse_args(given)
    for name in options.only or ():
        if name not in ROWS:
            parser.error(f"no measurement is called {name}; there are: {', '.join(ROWS)}")
    return options


def main(given: Sequence[str]) -> int:
    """Run the measurements; a missed target is shown, not an error: the machine may be busy."""
    options = arguments(given)
    names = options.only or [name for name, row in ROWS.items() if not options.quick or row.in_quick]
    missed, failed = [], []
    with started() as servers:
        run = Run(servers, quick=options.quick, profile=options.profile)
        for name in [name for name in names for _ in range(options.repeat)]:
            try:
                missed += measure(name, run)
            except Exception:  # the others may still be measured
                traceback.print_exc()
                failed.append(name)
    for text in missed:
        print(f"target missed: {text}", file=sys.stderr)
    for name in failed:
        print(f"NOT MEASURED: {name}", file=sys.stderr)
    return 1 if failed else 0


def measure(name: str, run: Run) -> list[str]:
    """Run one measurement, print and keep its results; return the targets it missed."""
    missed, started = [], time.monotonic()
    for result in load(name)(run):
        result.figures["took_s"] = round(time.monotonic() - started, 1)
        print(result.line(), flush=True)
        _keep(result)
        missed += [f"{result.name}: {target}" for target in result.missed]
    return missed


def _keep(result: Result) -> None:
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{time.strftime('%Y-%m-%d')}.jsonl").open("a") as out:
        out.write(result.line() + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
