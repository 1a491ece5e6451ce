"""New ids: unique over threads and processes, rising within one process."""

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import NoReturn

import pytest

from webhooks_app import ids
from webhooks_app.core.ids import attempt_id, parse_id

# Python 3.12 warns of threads at a fork; whether one is left from another test is not our question here.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def _write_and_exit(write: int, make: Callable[[], str]) -> NoReturn:
    status = 1
    try:
        with os.fdopen(write, "w") as out:
            out.write(make())
        status = 0
    finally:
        os._exit(status)


def _in_children(count: int, make: Callable[[], str]) -> list[str]:
    """Return the lines `make` gives in each of `count` forked children, run at the same time."""
    pipes = [os.pipe() for _ in range(count)]
    children = []
    for _, write in pipes:
        if (pid := os.fork()) == 0:
            _write_and_exit(write, make)
        os.close(write)
        children.append(pid)
    lines: list[str] = []
    for read, _ in pipes:
        with os.fdopen(read) as source:
            lines += source.read().split()
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * count
    return lines


def test_ids_of_a_loop_rise_and_are_unique() -> None:
    made = [ids.new_id("evt") for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == 5000


def test_ids_rise_when_the_clock_stands_still_or_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    steps = iter([now, now, now - 10**9, now - 10**9, now, now + 10**7])
    monkeypatch.setattr("webhooks_app.ids.time.time_ns", lambda: next(steps))
    made = [ids.new_ulid_int() for _ in range(6)]
    assert made == sorted(set(made))


def test_threads_share_no_id_and_each_sees_its_own_rise() -> None:
    results: list[list[int]] = []

    def work() -> None:
        results.append([ids.new_ulid_int() for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(results) == 4
    assert all(made == sorted(made) for made in results)
    assert len({value for made in results for value in made}) == 8000


def test_forked_processes_share_no_id() -> None:
    first = ids.new_id("evt")
    made = _in_children(4, lambda: "\n".join(ids.new_id("evt") for _ in range(5000)))
    assert len({first, *made}) == 20_001


def test_a_child_does_not_count_on_from_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns() + 10**9
    monkeypatch.setattr("webhooks_app.ids.time.time_ns", lambda: now)
    ids.new_ulid_int()
    made = _in_children(3, lambda: ids.new_id("evt"))
    made.append(ids.new_id("evt"))
    assert len(set(made)) == 4
    assert len({text[:14] for text in made}) == 1


def test_a_fork_while_the_lock_is_held_leaves_the_child_free() -> None:
    with ids._sequence._lock:
        made = _in_children(1, lambda: ids.new_id("evt"))
    assert len(made) == 1


def test_an_id_carries_its_time() -> None:
    before = time.time_ns() // 1_000_000
    value = parse_id("whk", ids.new_id("whk"))
    assert value is not None
    assert before <= value >> 80 <= before + 60_000


def test_a_foreign_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="prefix"):
        ids.new_id("order")


def test_tokens_are_far_apart_even_within_one_millisecond() -> None:
    tokens = [ids.new_token() for _ in range(2000)]
    assert all(isinstance(token, uuid.UUID) for token in tokens)
    attempts = {attempt_id(token, pk) for token in tokens for pk in range(1, 6)}
    assert len(attempts) == 10_000
    assert abs(time.time_ns() // 1_000_000 - (tokens[-1].int >> 80)) < 60_000
