"""What limits cost that are set and never reached: a rate, a breaker, a cap of requests in flight."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from bench import filling
from bench.results import Result, at_most
from bench.rows import Run
from bench.stage import Stage

PLAIN, GATED = "plain", "gated"
FAR_ABOVE = {"per_second": 100_000, "burst": 100_000}
# Those of the preset strict.
BREAKER = {
    "failures": 10,
    "open_seconds": 30,
    "probe_seconds": 30,
    "probes": 3,
    "probes_to_half_open": 0,
    "successes_to_close": 1,
}
KEYS = ("deliveries_per_s", "cpu_us_per_delivery", "pg_cpu_us_per_delivery")


def gates_beside_none(run: Run) -> Iterator[Result]:
    """One and ten endpoints without and with limits, in turns, in one worker."""
    figures: dict[str, Any] = {}
    for endpoints in (1, 10):
        arms = _arms(run, endpoints)
        for name, rounds in arms.items():
            figures |= {
                f"{name}_{endpoints}_{key}": round(median(one[key] for one in rounds)) for key in KEYS
            }
        pairs = list(zip(arms[GATED], arms[PLAIN], strict=True))
        # Of rounds next to each other, whatever else the machine did meanwhile.
        ratio = median(gated["deliveries_per_s"] / plain["deliveries_per_s"] for gated, plain in pairs)
        spent = median(_cpu(gated) / _cpu(plain) for gated, plain in pairs)
        figures[f"cost_{endpoints}"] = round(1 - ratio, 3)
        figures[f"cpu_cost_{endpoints}"] = round(spent - 1, 3)
        figures[f"runs_{endpoints}_per_s"] = {
            name: [one["deliveries_per_s"] for one in rounds] for name, rounds in arms.items()
        }
    yield Result("gates", figures, (at_most("cost_1", 0.1), at_most("cost_10", 0.1)))


def _cpu(figures: dict[str, Any]) -> float:
    return float(figures["cpu_us_per_delivery"] + figures["pg_cpu_us_per_delivery"])


def _arms(run: Run, endpoints: int) -> dict[str, list[dict[str, Any]]]:
    deliveries, rounds = run.size(5_000, 1_000), run.size(7, 2)
    arms: dict[str, list[dict[str, Any]]] = {PLAIN: [], GATED: []}
    with run.stage() as stage:
        url = stage.receiver.endpoint("fast")
        filling.add_endpoints([(PLAIN, f"{url}{number}") for number in range(endpoints)])
        filling.add_endpoints(
            [(GATED, f"{url}{number}") for number in range(endpoints)],
            rate_limit=FAR_ABOVE,
            policy_overrides={"breaker": BREAKER},
            max_in_flight=99,
        )
        stage.start_worker()
        for name in arms:
            _measure(stage, name, 500, endpoints)
        for number in range(rounds):
            # Whoever goes second finds the machine a little different.
            for name in list(arms)[:: 1 if number % 2 else -1]:
                arms[name].append(_measure(stage, name, deliveries, endpoints))
    return arms


def _measure(stage: Stage, name: str, deliveries: int, endpoints: int) -> dict[str, Any]:
    filling.commit_events([name] * (deliveries // endpoints))
    return stage.measure(deliveries // endpoints * endpoints)
