"""One run of prune: what it judges by, how long it may take, what it has deleted."""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .tenancy import Retention


@dataclass(slots=True)
class Sweep:
    """The moment to judge by, rows per transaction, retention, end of patience, and the counts so far."""

    alias: str
    now: datetime
    batch: int
    retention: Retention
    deadline: float | None
    counts: Counter[str] = field(default_factory=Counter)
    cut_short: bool = False

    def is_over(self) -> bool:
        """Whether the time is up; asked before each batch."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.cut_short = True
        return self.cut_short

    def cutoff(self, tenant_id: str | None) -> datetime:
        """Return the moment before which the tenant's rows are past their retention."""
        return self.now - timedelta(days=self.retention.days(tenant_id))

    @property
    def newest(self) -> datetime:
        """The latest cutoff of any tenant: nothing after it can be past its retention."""
        return self.now - timedelta(days=self.retention.shortest)
