"""Fixture: the official npm libraries `standardwebhooks` and `svix` check what we sent."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("node")

# (secret, headers, body) -> {"standardwebhooks": "ok" or an error, "svix": the same}
NodeVerify = Callable[[str, Mapping[str, str], bytes], dict[str, str]]


def _line(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    encoded = base64.b64encode(body).decode()
    return json.dumps({"secret": secret, "headers": dict(headers), "body_b64": encoded}) + "\n"


@pytest.fixture(scope="session")
def node_verify() -> NodeVerify:
    """Return a function that has one delivery verified by the npm libraries."""
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules").exists():
        pytest.skip("not run, optional: checks by the npm libraries (packages nodejs and npm)")

    def verify(secret: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        done = subprocess.run(
            [node, str(FOLDER / "verify.mjs")],
            input=_line(secret, headers, body),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        verdicts: dict[str, str] = json.loads(done.stdout)
        return verdicts

    return verify
