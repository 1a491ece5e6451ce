"""Finding: what one check of the doctor says."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is; only FAILED makes the doctor's verdict bad."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line about one subject, in plain words; `fix` says what to do about it."""

    level: Level
    subject: str
    message: str
    fix: str = ""


def ok(subject: str, message: str) -> Finding:
    """Return a good finding."""
    return Finding(Level.OK, subject, message)


def warning(subject: str, message: str, fix: str) -> Finding:
    """Return a finding that costs speed, or safety, or a day that is still to come."""
    return Finding(Level.WARNING, subject, message, fix)


def failed(subject: str, message: str, fix: str) -> Finding:
    """Return a finding with which webhooks do not leave, or not safely."""
    return Finding(Level.FAILED, subject, message, fix)
