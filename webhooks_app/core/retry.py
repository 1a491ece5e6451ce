"""When to try again: the schedule's waits and the receiver's Retry-After."""

import hashlib
import math
import re
from datetime import UTC, datetime, timedelta

from .policies import Policy

MIN_WAIT = 1.0  # seconds; jitter never shortens a wait below it
WHOLE_SECONDS_FROM = 30.0

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_TIME = "(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)"

# IMF-fixdate, rfc850-date, asctime-date: RFC 9110 §5.6.7, case-sensitive, ASCII digits only.
_HTTP_DATES = tuple(
    re.compile(form)
    for form in (
        rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"{_DAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_DELTA_SECONDS = re.compile("[0-9]+")


def next_wait(policy: Policy, step: int, jitter: float) -> float | None:
    """Return the seconds to wait after the failed attempt at ``step``, or ``None`` after the last one.

    ``step`` counts from 0 (the first attempt); ``jitter`` lies in [0, 1). The wait is spread evenly over
    ±``policy.jitter`` and rounded to whole seconds from 30 s on. Jitter lengthens no wait beyond
    ``policy.max_wait`` and shortens none below one second; a nominal wait outside of these is kept.
    """
    if step < 0:
        raise ValueError("step must not be negative")
    if step >= len(policy.waits):
        return None
    nominal = float(policy.waits[step])
    spread = 0.0 if policy.jitter_kind == "none" else policy.jitter
    wait = nominal * (1.0 - spread + 2.0 * spread * jitter)
    if nominal >= WHOLE_SECONDS_FROM:
        wait = float(round(wait))
    return max(min(MIN_WAIT, nominal), min(wait, max(policy.max_wait, nominal)))


def jitter_of(policy: Policy, *, delivery: str, step: int, chance: float) -> float:
    """Return the jitter in [0, 1) for the wait after ``step`` of a delivery.

    ``chance`` in [0, 1) where the policy's jitter is random. Where it is fixed per delivery the same id and
    step always give the same jitter, on every machine, spread evenly (53 bits of SHA-256). 0.5, the nominal
    wait, where there is none.
    """
    if policy.jitter_kind == "random":
        return chance
    if policy.jitter_kind == "none":
        return 0.5
    digest = hashlib.sha256(f"{delivery}:{step}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds from ``now`` that a Retry-After header asks for, 0 for a moment in the past.

    Takes digits and the three HTTP dates (RFC 9110 §10.2.3). ``None`` when there is no header or it is
    nonsense: a sign, fraction, list, other zone, impossible date, or a number no float can hold. Not
    capped: that is the policy's business. ``now`` is aware.
    """
    if value is None:
        return None
    text = value.strip(" \t")
    if _DELTA_SECONDS.fullmatch(text):
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    moment = _http_date(text, now)
    return None if moment is None else max(0.0, (moment - now).total_seconds())


def _http_date(text: str, now: datetime) -> datetime | None:
    for form in _HTTP_DATES:
        if found := form.fullmatch(text):
            return _moment(found, now)
    return None


def _moment(found: re.Match[str], now: datetime) -> datetime | None:
    month = _MONTHS.index(found["month"]) + 1
    day, hour, minute, second = (int(found[part]) for part in ("day", "hour", "minute", "second"))
    year = int(found["year"])
    if len(found["year"]) == 2:
        year = _full_year(year, (month, day, hour, minute, second), now.astimezone(UTC))
    try:
        # A leap second (60) is no datetime of its own.
        return datetime(year, month, day, hour, minute, tzinfo=UTC) + timedelta(seconds=second)
    except (ValueError, OverflowError):
        return None


def _full_year(two_digits: int, rest: tuple[int, ...], now: datetime) -> int:
    """Return the latest such year that is not over 50 years ahead of ``now`` (RFC 9110 §5.6.7)."""
    horizon = (now.year + 50, *now.timetuple()[1:6])
    century = now.year - now.year % 100
    years = (century + 100 + two_digits, century + two_digits, century - 100 + two_digits)
    return next(year for year in years if (year, *rest) <= horizon)
