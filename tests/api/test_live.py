"""The API as a stranger sees it: schemathesis makes requests from the document, and checks the answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.servers.basehttp import WSGIRequestHandler
from django.db import connection

from tests.api import rows, stranger
from tests.api.every import ids_of
from webhooks_app.actions.actor import PERMISSIONS
from webhooks_app.actions.api_keys import create_api_key

# What the schema cannot say, that a host resolves or a cursor was given out, makes a valid request refused.
NOT_ASKED = "positive_data_acceptance"
# A precondition is looked at before the body, so a wrong body with a wrong one is refused for the latter.
CONFIG = """
[phases.coverage]
unexpected-methods = ["PUT", "TRACE"]
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 415, 422, 428, 429]
"""
# Every value at the edges of the schema where a statement is cheapest; made-up ones where more can go wrong.
EFFORT = {"sqlite": ("examples,coverage", "1"), "postgresql": ("examples,fuzzing", "15")}
ROOT = Path(__file__).parents[2]
ROWS = 16  # of each kind; requests take them in turn
# Answers that end a request before it is looked at; their share of all, at most.
EARLY, SHARE = ("404", "409", "412", "429"), 0.15
SECONDS = 120  # at most; it takes ten
SEED = os.environ.get("SCHEMATHESIS_SEED", "1")


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send an answer's headers without waiting 40 ms for something to send along."""
    monkeypatch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)


def ids() -> dict[str, list[str]]:
    """Return ids of new rows by the noun of their paths; `spare` webhooks have no deliveries."""
    found: dict[str, list[str]] = {"spare": [rows.endpoint("a").public_id for _ in range(ROWS)]}
    for _ in range(ROWS):
        for noun, id in ids_of(rows.endpoint("a")).items():
            found.setdefault(noun, []).append(id)
    return found


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_no_request_surprises_it(
    live_server: Any, settings: Any, tmp_path: Path, loopback_only: list[str]
) -> None:
    phases, examples = EFFORT[connection.vendor]
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    hosts = {"*.test": ["127.0.0.1"], "*.example.com": ["127.0.0.1"]}
    settings.WEBHOOKS = {**settings.WEBHOOKS, "STATIC_HOSTS": hosts, "MAX_ENDPOINTS": 100_000}
    key = create_api_key(rows.OPERATOR, scope="tenant", scope_id="a", permissions=PERMISSIONS).key
    (tmp_path / stranger.IDS).write_text(json.dumps(ids()))
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [
            str(program),
            "run",
            f"{live_server.url}/webhooks/v1/openapi.json",
            *("--header", f"Authorization: Bearer {key}"),
            *("--exclude-checks", NOT_ASKED, "--phases", phases, "--max-examples", examples),
            *("--seed", SEED, "--warnings", "off", "--no-color", "--continue-on-failure"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": stranger.__name__},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    # Made-up URLs have made-up hosts; the guard of the tests has kept them from being looked up.
    loopback_only.clear()
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "Tested: 33\n" in done.stdout
    answers = json.loads((tmp_path / stranger.ANSWERS).read_text())
    assert sum(answers.get(status, 0) for status in EARLY) < SHARE * sum(answers.values()), answers
