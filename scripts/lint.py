"""Static checks, each shown with its time; all run, any failure fails: `python -m scripts.lint`."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = {"DJANGO_SETTINGS_MODULE": "tests.settings"}
# What a production deployment sets; `check --deploy` must then have nothing to say.
PRODUCTION = {
    "ALLOWED_HOSTS": "hooks.example.com",
    "CACHE_URL": "rediscache://127.0.0.1:6379/1",
    "CELERY_BROKER_URL": "redis://127.0.0.1:6379/0",
    "DATABASE_URL": "postgres://webhooks:secret@127.0.0.1:5432/webhooks",
    "DEBUG": "false",
    "DJANGO_ALLOWED_HOSTS": "hooks.example.com",
    "DJANGO_SECRET_KEY": "Zk3v9-lint-only-0x7Qe5TnB2mWc8Ry1Lp6Ud4Hs0JfAgKi9Vo",
    "DJANGO_SETTINGS_MODULE": "project.settings",
    "WEBHOOKS_MASTER_KEYS": "bGludCBvbmx5OiB0aGlydHktdHdvIGJ5dGVzIGtleSE=",
}


@dataclass(frozen=True)
class Step:
    """One check: a command of the environment, and the file without which there is nothing to check."""

    title: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""


STEPS = (
    Step("ruff check", ["ruff", "check", "."]),
    Step("ruff format", ["ruff", "format", "--check", "."]),
    Step("mypy", ["mypy"]),
    Step("import contracts", ["lint-imports"]),
    Step("links and names in docs", ["python", "-m", "scripts.docs"]),
    Step(
        "migrations complete",
        ["python", "-m", "django", "makemigrations", "--check", "--dry-run"],
        TESTS,
    ),
    Step(
        "deployment checks",
        ["python", "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        PRODUCTION,
        needs="project/settings.py",
    ),
    Step(
        "OpenAPI schema",
        ["python", "-m", "django", "spectacular", "--validate", "--fail-on-warn", "--file", os.devnull],
        TESTS,
        needs="webhooks_app/urls.py",
    ),
)


def passed(step: Step) -> bool:
    """Run one step and say how it went."""
    print(f"-- {step.title}", flush=True)
    if step.needs and not (ROOT / step.needs).exists():
        print(f"   skipped: {step.needs} does not exist yet", flush=True)
        return True
    started = time.monotonic()
    program = Path(sys.executable).with_name(step.command[0])
    done = subprocess.run(
        [str(program), *step.command[1:]], cwd=ROOT, env={**os.environ, **step.environment}, check=False
    )
    verdict = "FAILED" if done.returncode else "ok"
    print(f"   {verdict} ({time.monotonic() - started:.1f} s)", flush=True)
    return not done.returncode


def main() -> int:
    """Run every step; return the exit code."""
    failed = [step.title for step in STEPS if not passed(step)]
    print(
        f"lint: {len(STEPS) - len(failed)} of {len(STEPS)} passed",
        *(f"FAILED: {t}" for t in failed),
        sep="\n",
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
