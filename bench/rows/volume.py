"""What many rows and many deliveries do to speed and memory."""

from collections.abc import Iterator
from statistics import mean
from typing import Any

from django.db import connection

from bench import filling, old_rows, usage
from bench.results import Result, at_least, at_most
from bench.rows import Run
from bench.rows.throughput import TENANT
from bench.stage import Stage

OLD_DATABASE = "bench_old"
HOSTS, PER_TENANT = 500, 10


def old_rows_beside_none(run: Run) -> Iterator[Result]:
    """The same work in an empty database and beside a million finished deliveries, twice in turns."""
    old = run.size(1_000_000, 100_000)
    _make_old(run, old)
    try:
        arms: dict[str, list[dict[str, Any]]] = {"empty": [], "old": []}
        for _ in range(2):
            arms["empty"].append(_ten(run, None))
            arms["old"].append(_ten(run, OLD_DATABASE))
    finally:
        run.servers.drop_database(OLD_DATABASE)
    figures: dict[str, Any] = {"old_deliveries": old}
    for key in ("deliveries_per_s", "cpu_us_per_delivery", "pg_cpu_us_per_delivery"):
        figures[key] = round(mean(each[key] for each in arms["old"]))
        figures[f"empty_{key}"] = round(mean(each[key] for each in arms["empty"]))
    figures["runs_per_s"] = {
        name: [each["deliveries_per_s"] for each in each_arm] for name, each_arm in arms.items()
    }
    figures["speed_ratio"] = round(figures["deliveries_per_s"] / figures["empty_deliveries_per_s"], 2)
    yield Result("old_rows", figures, (at_least("speed_ratio", 0.8),))


def _make_old(run: Run, deliveries: int) -> None:
    with run.stage() as stage:
        old_rows.fill(TENANT, _add_ten(stage), deliveries)
        stage.keep_as(OLD_DATABASE)


def _ten(run: Run, template: str | None) -> dict[str, Any]:
    events = run.size(1_000, 300)
    with run.stage(*([template] if template else [])) as stage:
        if template is None:
            _add_ten(stage)
        stage.start_worker()
        filling.commit_events([TENANT] * events)
        return stage.measure(events * old_rows.PER_EVENT)


def _add_ten(stage: Stage) -> list[int]:
    url = stage.receiver.endpoint("fast")
    return filling.add_endpoints([(TENANT, url)] * old_rows.PER_EVENT)


def endurance(run: Run) -> Iterator[Result]:
    """Memory and database sessions over many deliveries to 500 hosts; the first fifth is the warm-up."""
    parts, deliveries = 5, run.size(200_000, 20_000)
    tenants = [f"tenant-{number}" for number in range(HOSTS // PER_TENANT)]
    events = deliveries // parts // HOSTS
    with run.stage() as stage:
        filling.add_endpoints(
            [
                (t, stage.receiver.endpoint("fast", host=f"host-{n}-{i}"))
                for n, t in enumerate(tenants)
                for i in range(PER_TENANT)
            ]
        )
        stage.start_worker()
        samples = []
        for _ in range(parts):
            filling.commit_events(tenants * events)
            figures = stage.measure(events * HOSTS)
            samples.append(_sample(stage))
    first, last = samples[0], samples[-1]
    figures = {
        "deliveries": events * HOSTS * parts,
        "deliveries_per_s": figures["deliveries_per_s"],
        "rss_mb": [each["rss_mb"] for each in samples],
        "rss_growth": round(last["rss_mb"] / first["rss_mb"] - 1, 3),
        "sessions": [each["sessions"] for each in samples],
        "new_sessions": last["sessions"] - first["sessions"],
        "connected": [each["connected"] for each in samples],
        "ticks_needed": stage.ticks,
    }
    yield Result("endurance", figures, (at_most("rss_growth", 0.1), at_most("new_sessions", 0)))


def _sample(stage: Stage) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT sessions, (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
            FROM pg_stat_database WHERE datname = current_database()"""
        )
        sessions, connected = cursor.fetchone()
    rss = usage.largest_mb(stage.worker.children)
    return {"rss_mb": round(rss, 1), "sessions": sessions, "connected": connected}
