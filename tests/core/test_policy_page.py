"""The reference page of policies shows every field of every preset, and every bound, as the code has them."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from webhooks_app.core.bounds import BOUND_LIMITS
from webhooks_app.core.overrides import DEFAULTS, OVERRIDES
from webhooks_app.core.policies import (
    DEFAULT_BOUNDS,
    PRESETS,
    AutoDisable,
    Bounds,
    Breaker,
    Policy,
    custom_policy,
    with_overrides,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))
# fmt: off
TIMES = {
    "waits", "max_wait", "window", "time_to_live", "connect_timeout", "total_timeout", "span",
    "start_within", "start_span", "open_seconds", "probe_seconds",
    "max_window", "min_wait", "min_timeout", "max_total_timeout",
}
# fmt: on
PARTS = {"auto_disable": AutoDisable, "breaker": Breaker}


def duration(seconds: float) -> str:
    for unit, name in UNITS:
        if seconds >= unit and round(seconds / unit, 1) == seconds / unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def statuses(values: frozenset[int]) -> str:
    """Return them as ranges: `408, 500–599`."""
    ends = sorted(status for status in values if status + 1 not in values)
    starts = sorted(status for status in values if status - 1 not in values)
    return ", ".join(
        str(start) if start == end else f"{start}–{end}" for start, end in zip(starts, ends, strict=True)
    )


def cell(name: str, value: Any) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset):
        return statuses(value)
    if isinstance(value, tuple):
        return ", ".join(cell(name, each) for each in value)
    if name in TIMES:
        return duration(value)
    return f"`{value}`" if isinstance(value, str) else f"{value:.12g}"


def rows() -> Iterator[list[str]]:
    """Yield the rows that the page must have, its last column left out."""
    for field in fields(Policy):
        if field.name == "name":
            continue
        values = [getattr(policy, field.name) for policy in PRESETS.values()]
        if field.name not in PARTS:
            yield [f"`{field.name}`", *(cell(field.name, value) for value in values)]
            continue
        yield [f"`{field.name}`", *("no" if value is None else "yes" for value in values)]
        for part in fields(PARTS[field.name]):
            inner = [getattr(value, part.name, None) for value in values]
            yield [f"`{field.name}/{part.name}`", *(cell(part.name, value) for value in inner)]


def table(heading: str) -> list[list[str]]:
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[text.strip() for text in line.strip("|").split("|")] for line in lines[2:]]


def test_every_field_of_every_preset() -> None:
    assert [row[: 1 + len(PRESETS)] for row in table("The presets")] == list(rows())


def test_the_columns_are_the_presets() -> None:
    head = next(line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| field"))
    assert [text.strip(" `") for text in head.strip("|").split("|")][1:-1] == list(PRESETS)


def test_every_bound() -> None:
    expected = [
        [
            f"`{field.name}`",
            cell(field.name, getattr(DEFAULT_BOUNDS, field.name)),
            " to ".join(cell(field.name, limit) for limit in BOUND_LIMITS[field.name]),
        ]
        for field in fields(Bounds)
    ]
    assert [row[:3] for row in table("Bounds")] == expected


def test_the_example_of_own_values_fits_every_preset() -> None:
    overrides = json.loads(re.search(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1])
    for policy in PRESETS.values():
        assert with_overrides(policy, overrides).auto_disable is None


def test_the_example_of_own_policies_is_right() -> None:
    example = re.search(r"```python\nWEBHOOKS = (.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]
    settings = eval(example)
    made = {
        name: custom_policy(name, definition, PRESETS) for name, definition in settings["POLICIES"].items()
    }
    assert settings["DEFAULT_POLICY"] in made


def test_every_field_may_be_changed_or_is_a_default_of_new_endpoints() -> None:
    known = {field.name for field in fields(Policy)} - {"name", *PARTS}
    assert {*OVERRIDES, *DEFAULTS} == known
    assert all(name.startswith("default_") for name in DEFAULTS)
