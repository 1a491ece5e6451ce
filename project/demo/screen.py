"""What the demo shows: lines, and one progress line that is rewritten in place on a terminal."""

import sys
import threading
from typing import TextIO


class Screen:
    """Writes for people; any thread may call it. Off a terminal, every progress is a line of its own."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._terminal = self._out.isatty()
        self._lock = threading.Lock()
        self._progress = ""

    def say(self, text: str = "") -> None:
        """Write a line, above the progress line if there is one."""
        with self._lock:
            shown = self._progress if self._terminal else ""
            self._write(f"{self._erase() if shown else ''}{text}\n{shown}")

    def progress(self, text: str) -> None:
        """Show how far things are; the same text twice is shown once."""
        with self._lock:
            if text == self._progress:
                return
            self._write(f"{self._erase()}{text}" if self._terminal else f"{text}\n")
            self._progress = text

    def end_progress(self) -> None:
        """Leave the progress line as it stands."""
        with self._lock:
            if self._progress and self._terminal:
                self._write("\n")
            self._progress = ""

    def _erase(self) -> str:
        return "\r\033[2K"

    def _write(self, text: str) -> None:
        encoding = self._out.encoding or "ascii"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
        self._out.flush()
