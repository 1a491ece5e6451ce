"""The measurements by name; each is a function in a module of this package."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from bench.results import Result
from bench.servers import TEMPLATE, Servers

if TYPE_CHECKING:
    from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Run:
    """What a measurement is given."""

    servers: Servers
    quick: bool = False
    profile: bool = False

    def size(self, full: int, quick: int) -> int:
        """Return the number for this run."""
        return quick if self.quick else full

    @contextlib.contextmanager
    def stage(self, template: str = TEMPLATE) -> Iterator["Stage"]:
        """Prepare an isolated measurement."""
        from bench.stage import Stage

        with Stage(self.servers, template=template, profile=self.profile) as stage:
            yield stage


@dataclass(frozen=True, slots=True)
class Row:
    """Where a measurement is, and whether the quick run has it."""

    module: str
    function: str
    in_quick: bool = True


ROWS = {
    "throughput_1": Row("throughput", "one_endpoint"),
    "throughput_10": Row("throughput", "ten_endpoints"),
    "https": Row("throughput", "https"),
    "slow_receivers": Row("throughput", "slow_receivers"),
    "many_endpoints": Row("throughput", "many_endpoints"),
    "emit": Row("emitting", "emit_beside_insert"),
    "latency": Row("latency", "emit_to_received"),
    "four_hanging": Row("neighbours", "four_hanging"),
    "neighbours": Row("neighbours", "beside_hanging"),
    "fairness": Row("fairness", "beside_a_backlog"),
    "ordering": Row("ordering", "orders_beside_none", in_quick=False),
    "gates": Row("gates", "gates_beside_none", in_quick=False),
    "held": Row("held", "a_million_held", in_quick=False),
    "recovery": Row("recovering", "beside_live_traffic", in_quick=False),
    "listing": Row("listing", "deliveries_of_one", in_quick=False),
    "prune": Row("pruning", "beside_emits", in_quick=False),
    "old_rows": Row("volume", "old_rows_beside_none", in_quick=False),
    "endurance": Row("volume", "endurance", in_quick=False),
}


def load(name: str) -> Callable[[Run], Iterator[Result]]:
    """Return the function of a measurement; Django must be set up."""
    row = ROWS[name]
    function: Callable[[Run], Iterator[Result]] = getattr(
        import_module(f"bench.rows.{row.module}"), row.function
    )
    return function
