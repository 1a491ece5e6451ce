"""Changes to the product that only a test's processes make: shorter times, and faults at chosen calls.

A fault is a dict:
    at     "module:attribute", the function that is wrapped where it is looked up
    when   "before" or "after" the call
    nth    which call of one process, from 1
    do     "kill", "kill_parent", "stop" (SIGSTOP), "sleep SECONDS", "raise"
    match  words that the arguments' repr must hold
    flag   a path: made when the fault strikes; it strikes only while fewer than `times` such files exist
    times  default 1
"""

import functools
import importlib
import itertools
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.e2e.choice import Choice

Function = Callable[..., Any]


class FaultError(RuntimeError):
    """Raised by a fault that says "raise"."""


def apply(chosen: Choice) -> None:
    """Set constants and faults in this process."""
    for place, value in chosen.constants.items():
        module, name = _place(place)
        old = getattr(module, name)
        setattr(module, name, timedelta(seconds=value) if isinstance(old, timedelta) else value)
    for fault in chosen.faults:
        module, name = _place(fault["at"])
        setattr(module, name, _wrapped(getattr(module, name), **fault))


def _place(text: str) -> tuple[Any, str]:
    path, _, name = text.partition(":")
    owner: Any = importlib.import_module(path)
    *classes, attribute = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    getattr(owner, attribute)
    return owner, attribute


def _wrapped(
    function: Function,
    *,
    at: str,
    when: str,
    do: str,
    flag: str,
    nth: int = 1,
    times: int = 1,
    match: str = "",
) -> Function:
    calls = itertools.count(1)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        strikes = match in repr(args) and next(calls) >= nth
        if strikes and when == "before":
            _strike(do, flag, times)
        result = function(*args, **kwargs)
        if strikes and when == "after":
            _strike(do, flag, times)
        return result

    return wrapper


def _strike(do: str, flag: str, times: int) -> None:
    if not any(_claim(Path(f"{flag}.{place}")) for place in range(times)):
        return
    if do == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif do == "kill_parent":
        os.kill(os.getppid(), signal.SIGKILL)
    elif do == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif do.startswith("sleep "):
        time.sleep(float(do.removeprefix("sleep ")))
    else:
        raise FaultError(do)


def _claim(path: Path) -> bool:
    """Make the file, with the process id in it; False when another call was first."""
    try:
        with path.open("x") as out:
            out.write(str(os.getpid()))
    except FileExistsError:
        return False
    return True
