"""The plans of statements about the tables that grow: whether an index bounds what they read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

BIG = {"webhooks_app_delivery", "webhooks_app_event", "webhooks_app_outboxentry", "webhooks_app_attempt"}
# They hold what waits or is in flight and nothing else, so to read all of one is bounded too.
PARTIAL = {"webhooks_outbox_by_tenant", "webhooks_event_unfanned", "webhooks_delivery_leased"}


class Plans:
    """The plans of the statements that ran; each is a list of its nodes."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, list[dict[str, Any]]]] = []

    def check(self) -> None:
        """Fail for a scan of a big table that an index condition does not bound."""
        assert self.statements
        for sql, nodes in self.statements:
            for node in nodes:
                assert not self._unbounded(node), f"{node['Node Type']} of {_table(node)} in {sql}"

    def _unbounded(self, node: dict[str, Any]) -> bool:
        if _table(node) not in BIG or node["Node Type"] in {"ModifyTable", "Bitmap Heap Scan"}:
            return False
        bounded = "Index Cond" in node or node.get("Index Name") in PARTIAL
        return "Index" not in node["Node Type"] or not bounded

    def indexes(self) -> set[str]:
        """Return the names of all indexes that were used."""
        return {node["Index Name"] for _, nodes in self.statements for node in nodes if "Index Name" in node}

    def indexes_read(self) -> set[str]:
        """Return the names of the indexes that SELECT statements used."""
        reads = Plans()
        reads.statements = [each for each in self.statements if not each[0].lstrip().startswith("UPDATE")]
        return reads.indexes()

    def most_read(self, table: str) -> int:
        """Return the most rows of a table that one statement read; it must be `explained(analyze=True)`."""
        reads = [sum(_read(node) for node in nodes if _table(node) == table) for _, nodes in self.statements]
        return max(reads)


def _read(node: dict[str, Any]) -> int:
    """Return how many rows a node has read, those included that it then left out."""
    left_out = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    each = node["Actual Rows"] + sum(node.get(name, 0) for name in left_out)
    return int(each * node["Actual Loops"])


def _table(node: dict[str, Any]) -> str:
    return str(node.get("Relation Name", ""))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


@contextmanager
def explained(*, analyze: bool = False) -> Iterator[Plans]:
    """Explain every statement about a big table before it runs; to `analyze` is to run it twice."""
    plans = Plans()
    how = "EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) " if analyze else "EXPLAIN (FORMAT JSON) "

    def wrap(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if any(table in sql for table in BIG) and sql.lstrip().startswith(("SELECT", "UPDATE", "WITH")):
            with connection.connection.cursor() as cursor:
                cursor.execute(how + sql, params)
                (answer,) = cursor.fetchone()
            found = answer if isinstance(answer, list) else json.loads(answer)
            plans.statements.append((sql, list(_nodes(found[0]["Plan"]))))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrap):
        yield plans
