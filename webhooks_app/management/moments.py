"""Moments as people type them: a time with its zone, or how long ago."""

import re
from datetime import datetime, timedelta

from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

FORM = "a time with its zone (2026-01-31T10:00Z), or how long ago (30m, 12h, 7d)"

_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(name: str, text: str | None) -> datetime | None:
    """Return the moment that the option `name` gives. Raises CommandError for text of another form."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return timezone.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = parse_datetime(text)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.utcoffset() is None:
        raise CommandError(f"--{name}: write a time with its zone (2026-01-31T10:00Z) or an age (12h, 7d)")
    return found
