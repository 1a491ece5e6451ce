"""Calls a command as a shell would, and keeps its two streams apart."""

from dataclasses import dataclass
from io import StringIO
from typing import Any

from django.core.management import CommandError, call_command


@dataclass(frozen=True)
class Ran:
    """What a command printed, its exit code, and why it failed."""

    out: str
    err: str
    code: int = 0
    fault: str = ""


def run(name: str, *arguments: str, **options: Any) -> Ran:
    """Run a management command."""
    out, err = StringIO(), StringIO()
    try:
        call_command(name, *arguments, stdout=out, stderr=err, **options)
    except CommandError as error:
        return Ran(out.getvalue(), err.getvalue(), error.returncode, str(error))
    return Ran(out.getvalue(), err.getvalue())
