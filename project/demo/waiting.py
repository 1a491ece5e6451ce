"""Waiting with a deadline."""

import time
from collections.abc import Callable

EVERY = 0.1


class TookTooLong(RuntimeError):
    """Something did not happen in time."""


def wait_for(happened: Callable[[], bool], what: str, *, seconds: float) -> None:
    """Poll until `happened()` is true.

    Raises:
        TookTooLong: `seconds` went by; the message says that `what` did not happen.
    """
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise TookTooLong(f"{what} did not happen within {seconds:.0f} seconds")
        time.sleep(EVERY)
