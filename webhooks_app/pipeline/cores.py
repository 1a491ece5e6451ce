"""Which core a process's threads run on."""

import os

from ..conf import current


def stay_on_one_core() -> None:
    """Keep this thread, and those that it starts, on one core, where the operator wants it so."""
    if current().PIN_TO_CORE and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        # The processes of a pool are started one after another, so their ids spread over the cores.
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
