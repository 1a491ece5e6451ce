"""One run of prune: what it judges by, how long it may take, what it has deleted."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..pipeline.retention import Retention


@dataclass(slots=True)
class Sweep:
    """The moment to judge by, rows per transaction, retention, end of patience, and the counts so far."""

    alias: str
    now: datetime
    batch: int
    retention: Retention
    deadline: float | None
    tell: Callable[[Mapping[str, int]], None] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    cut_short: bool = False

    def goes_on(self) -> bool:
        """Tell how far it has come, and whether there is time for another batch; asked before each."""
        if self.tell is not None:
            self.tell(self.counts)
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.cut_short = True
        return not self.cut_short

    def cutoff(self, tenant_id: str | None) -> datetime:
        """Return the moment up to which the tenant's rows are past their retention."""
        return self.retention.cutoff(self.now, tenant_id)

    @property
    def newest(self) -> datetime:
        """The latest cutoff of any tenant: nothing after it can be past its retention."""
        return self.now - timedelta(days=self.retention.shortest)
