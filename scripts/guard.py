"""Ends a server when the process that started it is gone: `guard.py PID FOLDER`, watching stdin."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.processes import signal_tree


def main(pid: int, folder: Path) -> None:
    """Wait for the end of stdin; "done" means that the server was stopped in an orderly way."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 16) == b"done":
        return
    with contextlib.suppress(ProcessLookupError):
        signal_tree(pid, signal.SIGKILL)
    if folder.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
