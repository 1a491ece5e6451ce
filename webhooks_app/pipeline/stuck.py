"""Endpoints whose state rows somebody keeps locked: left alone for a moment, so that they hold up nobody."""

from collections.abc import Iterable

# A little less than the second that the hint takes which brings them back.
AVOID = 0.9


class Stuck:
    """Remembers them for a moment; their wake is on its way, so further ones say nothing new."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def others(self, endpoint_ids: Iterable[int], now: float) -> list[int]:
        """Return the endpoints that are not stuck; `now` is monotonic."""
        if self._until:
            self._until = {key: until for key, until in self._until.items() if until > now}
        return [key for key in endpoint_ids if key not in self._until]

    def add(self, endpoint_ids: Iterable[int], now: float) -> None:
        """Leave these alone from now on."""
        self._until.update(dict.fromkeys(endpoint_ids, now + AVOID))
