"""Targets and result lines of the bench."""

import json

import pytest

from bench.results import Result, at_least, at_most


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [(9.9, False, True), (10, True, True), (10.1, True, False), (None, False, False)],
)
def test_bounds_are_inclusive_and_a_missing_figure_misses(value: float | None, low: bool, high: bool):
    figures = {} if value is None else {"figure": value}
    assert at_least("figure", 10).is_reached(figures) is low
    assert at_most("figure", 10).is_reached(figures) is high


def test_the_line_names_what_was_missed():
    result = Result("row", {"speed": 5, "cpu": 1}, (at_least("speed", 6), at_most("cpu", 2)))
    line = json.loads(result.line())
    assert line == {
        "name": "row",
        "speed": 5,
        "cpu": 1,
        "target": "speed >= 6; cpu <= 2",
        "reached": False,
        "missed": ["speed >= 6"],
    }


def test_without_targets_there_is_no_verdict():
    assert "reached" not in json.loads(Result("row", {"speed": 5}).line())
