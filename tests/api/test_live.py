"""The API as a stranger sees it: schemathesis makes requests from the document, and checks the answers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api import rows
from webhooks_app.actions.actor import PERMISSIONS
from webhooks_app.actions.api_keys import create_api_key

# What the schema cannot say, that a host resolves or a cursor was given out, makes a valid request refused.
NOT_ASKED = "positive_data_acceptance"
SECONDS = 20
SEED = os.environ.get("SCHEMATHESIS_SEED", "1")


@pytest.mark.django_db(transaction=True)
def test_no_request_surprises_it(
    live_server: Any, settings: Any, tmp_path: Path, loopback_only: list[str]
) -> None:
    hosts = {"*.test": ["127.0.0.1"], "*.example.com": ["127.0.0.1"]}
    settings.WEBHOOKS = {**settings.WEBHOOKS, "STATIC_HOSTS": hosts, "MAX_ENDPOINTS": 100_000}
    key = create_api_key(rows.OPERATOR, scope="tenant", scope_id="a", permissions=PERMISSIONS).key
    rows.delivery(rows.endpoint("a"))
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [
            str(program),
            "run",
            f"{live_server.url}/webhooks/v1/openapi.json",
            *("--header", f"Authorization: Bearer {key}"),
            *("--exclude-checks", NOT_ASKED, "--max-time", str(SECONDS), "--max-examples", "15"),
            *("--seed", SEED, "--warnings", "off", "--no-color", "--continue-on-failure"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS * 4,
        check=False,
    )
    # Made-up URLs have made-up hosts; the guard of the tests has kept them from being looked up.
    loopback_only.clear()
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "Tested: " in done.stdout
