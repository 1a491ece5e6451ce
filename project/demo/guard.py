"""Ends a demo whose main process is gone: `guard.py FOLDER`; stdin names process groups, "done" ends it."""

import contextlib
import os
import shutil
import signal
import sys


def main(folder: str) -> None:
    """Read until stdin closes; then kill every group that was named and remove the folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: list[int] = []
    for line in sys.stdin:
        if line.strip() == "done":
            return
        groups.append(int(line))
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
