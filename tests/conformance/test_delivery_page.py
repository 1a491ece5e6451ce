"""The page about what happens to a delivery: its figures are the presets', its diagrams the code's."""

import re
from itertools import accumulate
from pathlib import Path

import pytest

from webhooks_app.core.breaker import CLOSED, HALF_OPEN, OPEN
from webhooks_app.core.health import FIRST_WINDOW
from webhooks_app.core.matching import OPERATIONAL
from webhooks_app.core.ordering import ORDERINGS
from webhooks_app.core.policies import PRESETS, Policy
from webhooks_app.core.states import ERRORS, MOVES, State

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "deliveries.md").read_text("utf-8")
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
EVERY = pytest.mark.parametrize("policy", PRESETS.values(), ids=PRESETS)


def section(name: str) -> str:
    """Return what stands under a heading."""
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, its head left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def seconds(text: str) -> list[int]:
    """Return the durations that a text names."""
    return [int(count) * UNITS[unit] for count, unit in re.findall(r"\b(\d+) (s|min|h|d)\b", text)]


def statuses(text: str) -> set[int]:
    """Return the HTTP statuses that a text names, singly or as ranges."""
    found: set[int] = set()
    for low, high in re.findall(r"\b([3-5]\d\d)(?:–([3-5]\d\d))?\b", text):
        found |= set(range(int(low), int(high or low) + 1))
    return found


def within_window(policy: Policy) -> list[float]:
    """Return the waits after which an attempt is made, without jitter."""
    ends = accumulate(policy.waits)
    pairs = zip(policy.waits, ends, strict=True)
    return [wait for wait, end in pairs if policy.window is None or end < policy.window]


@EVERY
def test_the_schedule(policy: Policy):
    """Waits, their jitter, and how many attempts that makes."""
    situation, follows, when, _ = rows(section(f"`{policy.name}`"))[0]
    waits, _, jitter = when.partition("; ±")
    assert seconds(waits) == within_window(policy)
    assert jitter.partition(" %")[0] == ("" if policy.jitter_kind == "none" else f"{policy.jitter * 100:g}")
    attempts = re.search(r"(\d+) attempts", follows)
    assert attempts
    assert int(attempts[1]) == 1 + len(within_window(policy))
    assert statuses(situation) == set(policy.retried)
    assert ("refused address" in situation) is policy.retry_refused
    ends = [row for row in rows(section(f"`{policy.name}`")) if row[1].startswith("`exhausted`")]
    assert len(ends) == 1
    if "th attempt fails" in ends[0][0]:
        assert f"the {policy.max_attempts}th attempt" in ends[0][0]
    assert (seconds(ends[0][0]) or [None]) == [policy.window]


@EVERY
def test_the_limits(policy: Policy):
    """Time of a request, longest Retry-After, deferrals for free."""
    by_name = {row[0]: row for row in rows(section(f"`{policy.name}`"))}
    (limit,) = [name for name in by_name if name.startswith("a request takes longer")]
    assert seconds(limit) == [policy.total_timeout, policy.connect_timeout]
    (asked,) = [row for name, row in by_name.items() if "with `Retry-After`" in name]
    longest = re.search(r"at most ([\d.]+) d", asked[2])
    if longest:
        assert float(longest[1]) * 86_400 == policy.max_wait
    else:
        assert policy.max_wait == policy.window
    free = re.search(r"(\d) times that costs no attempt", asked[1])
    assert int(free[1] if free else 0) == policy.free_deferrals
    if statuses(asked[0]):
        assert statuses(asked[0]) == set(policy.retry_after_on)
    else:
        assert policy.retry_after_on >= policy.retried


@EVERY
def test_health(policy: Policy):
    """Breaker and automatic disabling, and whether a 410 disables."""
    table = section(f"`{policy.name}`")
    opening = re.search(r"\| (\d+) failures in a row \| the breaker opens.*", table)
    assert (opening is None) is (policy.breaker is None)
    if opening and policy.breaker:
        assert int(opening[1]) == policy.breaker.failures
    disabling = re.search(r"\| (\d+) failures in a row, the first at least (\d+ d) ago", table)
    rule = policy.auto_disable
    if disabling and rule:
        assert (int(disabling[1]), seconds(disabling[2])) == (rule.failures, [rule.span])
    elif rule:
        (warned,) = rule.warnings
        assert (
            f"failures for {warned * rule.span / 3600:g} hours, at least {rule.start_span / 3600:g} h"
            in table
        )
        assert f"… for {rule.span / 86_400:g} d" in table
    else:
        assert "the endpoint is disabled" not in table
    assert bool(re.search(r"^\| 410 \|", table, re.MULTILINE)) is policy.gone_disables


def test_the_breakers_table():
    """Figures of both presets that have one."""
    table = {row[0].strip("`"): row[2:] for row in rows(section("The breaker").partition("```\n\n")[2])}
    assert list(table) == [CLOSED, OPEN, HALF_OPEN]
    for place, name in enumerate(("strict", "exponential")):
        breaker = PRESETS[name].breaker
        assert breaker
        assert table[CLOSED][place] == f"{breaker.failures} failures in a row open it"
        assert seconds(table[OPEN][place])[0] == breaker.open_seconds
        assert f"{breaker.successes_to_close} success closes it" in table[HALF_OPEN][place]
        probes = breaker.probes_to_half_open or breaker.probes
        assert re.search(rf"\b{probes} (probes|good ones)", table[OPEN][place])
    assert f"gets {FIRST_WINDOW} requests at once at first" in section("The breaker")


def arrows(name: str) -> set[tuple[str, str]]:
    """Return the arrows of a section's diagram."""
    found = re.search(r"```mermaid\n(.*?)```", section(name), re.DOTALL)
    assert found
    return set(re.findall(r"^ +(\S+) --> (\w+)", found[1], re.MULTILINE))


def test_the_diagram_of_states():
    """Every state is in it, and no move that the code forbids."""
    drawn = {pair for pair in arrows("The states of a delivery") if pair[0] != "[*]"}
    assert {state for pair in drawn for state in pair} == {str(state) for state in State}
    assert all(State(new) in MOVES[State(old)] for old, new in drawn)
    ends = {str(state) for state in State} - {"pending"}
    assert {("pending", end) for end in ends} | {(end, "pending") for end in ends} <= drawn


def test_the_diagram_of_the_breaker():
    assert {pair for pair in arrows("The breaker") if pair[0] != "[*]"} == {
        (CLOSED, OPEN),
        (OPEN, HALF_OPEN),
        (HALF_OPEN, CLOSED),
        (HALF_OPEN, OPEN),
    }


def test_the_words_are_the_codes():
    """Error codes, orderings and events that the page names exist."""
    named = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)*)`", PAGE))
    words = ERRORS | {str(state) for state in State}
    assert {"timeout", "dns", "connect", "tls", "reset", "invalid_response", "redirect"} <= named & ERRORS
    assert {str(state) for state in State} <= named
    assert {"status_4xx", "status_410", "worker_lost", "aborted_by_consumer"} <= named & words
    assert [row[0].strip("`") for row in rows(section("In which order"))] == list(ORDERINGS)
    assert {row[0].strip("`") for row in rows(section("Who is told"))} == OPERATIONAL


def test_it_is_in_the_index():
    index = (Path(__file__).parents[2] / "docs" / "README.md").read_text("utf-8")
    assert "(explanation/deliveries.md)" in index
