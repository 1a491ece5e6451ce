"""A short run of the bench: the product under Celery, PostgreSQL and Redis. Speed is not judged here."""

import json
import os
import subprocess
import sys

import pytest

from tests.structure.sources import ROOT

SECONDS = 150


@pytest.mark.e2e
def test_a_quick_run_delivers_everything_once():
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DJANGO_")}
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", "throughput_10"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert figures["posts"] == figures["deliveries"] == 4000
    assert figures["cpu_us_per_delivery"] > 0
    assert figures["baseline_cpu_us"] > 0


def test_an_unknown_name_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nonsense"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no measurement is called nonsense" in done.stderr
