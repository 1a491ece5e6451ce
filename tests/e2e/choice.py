"""What a test chooses for the processes it starts, and how they are told: one variable, E2E, with JSON."""

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "E2E"


@dataclass(slots=True)
class Choice:
    """`constants` maps "module:NAME" to the value that the process uses instead; `faults` see tuning.py."""

    database: str = "sqlite:///unused.sqlite3"
    broker: str = "memory://"
    port: int = 1
    debug: bool = False
    webhooks: dict[str, Any] = field(default_factory=dict)
    celery: dict[str, Any] = field(default_factory=dict)
    transport_options: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that makes this choice."""
        return {
            **os.environ,
            VARIABLE: json.dumps(asdict(self)),
            "DJANGO_SETTINGS_MODULE": "tests.e2e.settings",
            "PYTHONUNBUFFERED": "1",
        }


def choice() -> Choice:
    """Return what the test that started this process chose."""
    return Choice(**json.loads(os.environ.get(VARIABLE, "{}")))
