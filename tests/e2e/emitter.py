"""A web process that emits for ever, to be killed at any moment: `python -m tests.e2e.emitter SECONDS`.

It prints each event's id after the commit was confirmed. Some transactions are rolled back, some savepoints.
"""

import random
import sys
import time

import django
from django.db import Error, connections, transaction

ALIAS = "e2e"


class RollBackError(Exception):
    """Ends a transaction without a commit."""


def one(chance: random.Random) -> list[str]:
    """Commit one to three events, or none."""
    ids = []
    with transaction.atomic(using=ALIAS):
        for _ in range(chance.randint(1, 3)):
            ids.append(_emit(chance))
        try:
            with transaction.atomic(using=ALIAS):
                ids.append(_emit(chance))
                if chance.random() < 0.3:
                    raise RollBackError
        except RollBackError:
            ids.pop()
        if chance.random() < 0.2:
            raise RollBackError
    return ids


def _emit(chance: random.Random) -> str:
    from webhooks_app import emit

    owner = ("shop", str(chance.randint(1, 5))) if chance.random() < 0.5 else None
    return emit("order.paid", {"n": chance.random()}, tenant="t", owner=owner).id


def main(pause: float) -> None:
    """Emit until the process is ended."""
    chance = random.Random()
    while True:
        try:
            print(*one(chance), flush=True)
        except RollBackError:
            pass
        except Error:
            connections[ALIAS].close()
        time.sleep(pause)


if __name__ == "__main__":
    django.setup()
    main(float(sys.argv[1]))
