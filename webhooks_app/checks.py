"""System checks: every mistake in the settings that can be seen without a database, each with id and hint.

`docs/reference/checks.md` has one section per id. Errors stop the process or would lose, leak or misdirect
deliveries; warnings cost speed or a safety net. What needs the database is `webhooks_doctor`'s.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from django.apps import AppConfig
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import connections
from django.utils.module_loading import import_string

from . import conf
from .core.policies import PRESETS
from .core.ssrf_ranges import METADATA
from .pipeline.queue import TICK, scheduled_tasks

TAG = "webhooks"
DOCS = "docs/reference/checks.md"
SUPPORTED_DATABASES = ("postgresql", "sqlite")
TENANCY_METHODS = ("partner_of", "is_suspended", "retention_days")
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def _message(short_id: str, text: str, hint: str) -> CheckMessage:
    kind = Error if short_id.startswith("E") else Warning
    return kind(text, hint=f"{hint} See {DOCS}#{short_id.lower()}.", id=f"webhooks_app.{short_id}")


@register(TAG)
def check_settings(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report every fault of the WEBHOOKS dict, and of the settings of Django it leans on."""
    settings, problems = conf.load()
    found = [
        _message("E001", f'WEBHOOKS["{each.key}"] {each.message}.', each.hint or "Correct the value.")
        for each in problems
    ]
    for check in _CHECKS:
        found.extend(check(settings))
    if any(each.key == "MASTER_KEYS" for each in problems):
        found = [each for each in found if each.id not in {"webhooks_app.E002", "webhooks_app.W001"}]
    return found


@register(TAG, deploy=True)
def check_deployment(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report testing mode: it lets endpoints reach loopback and plain HTTP."""
    if not conf.load()[0].TESTING:
        return []
    return [
        _message(
            "E014",
            'WEBHOOKS["TESTING"] is on: endpoints may reach loopback, plain HTTP and static hosts.',
            "Take TESTING (environment: WEBHOOKS_TESTING) out of the production settings.",
        )
    ]


def _master_keys(settings: conf.Settings) -> Iterator[CheckMessage]:
    if settings.MASTER_KEYS:
        return
    short_id, text = (
        "E002",
        'WEBHOOKS["MASTER_KEYS"] is empty: endpoint secrets can be neither sealed nor opened.',
    )
    if django_settings.DEBUG:
        short_id, text = "W001", 'WEBHOOKS["MASTER_KEYS"] is empty: no endpoint can be created or sent to.'
    yield _message(
        short_id,
        text,
        "Give a list of base64 keys of 32 bytes, the first seals. Make one with: "
        "python -c 'import base64,os; print(base64.b64encode(os.urandom(32)).decode())'",
    )


def _databases(settings: conf.Settings) -> Iterator[CheckMessage]:
    aliases = dict.fromkeys(settings.OUTBOX_DATABASES, "OUTBOX_DATABASES") | {settings.DATABASE: "DATABASE"}
    for alias, key in aliases.items():
        if alias not in django_settings.DATABASES:
            known = ", ".join(sorted(django_settings.DATABASES))
            yield _message(
                "E003",
                f'WEBHOOKS["{key}"] names the database "{alias}", which DATABASES does not have.',
                f"Known aliases: {known}.",
            )
        else:
            yield from _database(alias)


def _database(alias: str) -> Iterator[CheckMessage]:
    vendor = connections[alias].vendor
    if vendor not in SUPPORTED_DATABASES:
        yield _message(
            "E004",
            f'The database "{alias}" is {vendor}, which the webhook sender does not support.',
            "Use PostgreSQL 14 or newer, or SQLite for one machine; "
            "DATABASE and OUTBOX_DATABASES may name other aliases than the default.",
        )
    if vendor == "postgresql" and find_spec("psycopg") is None:
        yield _message(
            "E004",
            f'The database "{alias}" is reached by psycopg2; the webhook sender needs psycopg 3.',
            'pip install "django-webhooks-app[postgres]".',
        )
    if vendor == "sqlite":
        yield from _sqlite(alias, django_settings.DATABASES[alias])


def _sqlite(alias: str, database: Mapping[str, Any]) -> Iterator[CheckMessage]:
    options = database.get("OPTIONS") or {}
    if str(options.get("transaction_mode", "")).upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        yield _message(
            "W002",
            f'SQLite database "{alias}": a transaction that reads before it writes fails when others write.',
            'Set OPTIONS = {"transaction_mode": "IMMEDIATE", …}.',
        )
    in_memory = ":memory:" in str(database["NAME"]) or "mode=memory" in str(database["NAME"])
    pragmas = "".join(str(options.get("init_command", "")).lower().split())
    if not in_memory and "journal_mode=wal" not in pragmas:
        yield _message(
            "W003",
            f'SQLite database "{alias}" has no write-ahead log: readers and writers block each other.',
            'Set OPTIONS = {"init_command": "PRAGMA journal_mode=WAL;", …}.',
        )


def _production_only(settings: conf.Settings) -> Iterator[CheckMessage]:
    if settings.relaxed:
        return
    if not settings.REQUIRE_HTTPS:
        yield _message(
            "E005",
            'WEBHOOKS["REQUIRE_HTTPS"] is off: payloads and signatures would travel in clear text.',
            "Turn it on; plain HTTP is only for DEBUG or TESTING.",
        )
    if settings.STATIC_HOSTS:
        yield _message(
            "E006",
            'WEBHOOKS["STATIC_HOSTS"] is set: these names skip DNS and the rules for names.',
            "Remove it; static hosts are only for DEBUG or TESTING.",
        )


def _allow_networks(settings: conf.Settings) -> Iterator[CheckMessage]:
    metadata = {ip_network(address) for address, _ in METADATA}
    for network in map(ip_network, settings.ALLOW_NETWORKS):
        if network.is_link_local or network in metadata:
            yield _message(
                "E007",
                f'WEBHOOKS["ALLOW_NETWORKS"] holds {network}: link-local and metadata addresses.',
                "Remove it: metadata addresses stay refused, and no receiver lives at the others.",
            )
        elif not settings.relaxed and any(_overlap(network, each) for each in LOOPBACK):
            yield _message(
                "E008",
                f'WEBHOOKS["ALLOW_NETWORKS"] holds {network}: this machine\'s loopback.',
                "Name the networks of your receivers; loopback is only for DEBUG or TESTING.",
            )


def _overlap(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _policy(settings: conf.Settings) -> Iterator[CheckMessage]:
    known = [*PRESETS, *settings.POLICIES]
    if settings.DEFAULT_POLICY not in known:
        yield _message(
            "E009",
            f'WEBHOOKS["DEFAULT_POLICY"] is "{settings.DEFAULT_POLICY}", which is no policy.',
            f"Known policies: {', '.join(known)}.",
        )


def _threads(settings: conf.Settings) -> Iterator[CheckMessage]:
    if settings.MAX_SENDER_THREADS < settings.SENDER_THREADS:
        yield _message(
            "E010",
            f'WEBHOOKS["MAX_SENDER_THREADS"] ({settings.MAX_SENDER_THREADS}) is below '
            f"SENDER_THREADS ({settings.SENDER_THREADS}).",
            "SENDER_THREADS is where a process starts, MAX_SENDER_THREADS how far it may grow.",
        )


def _ca_bundle(settings: conf.Settings) -> Iterator[CheckMessage]:
    path = settings.CA_BUNDLE
    if path is not None and not (os.path.isfile(path) and os.access(path, os.R_OK)):
        yield _message(
            "E011",
            f'WEBHOOKS["CA_BUNDLE"] is "{path}", which is no readable file.',
            "Give the path of a PEM file, readable by web and worker processes, or None for certifi's list.",
        )


def _imports(settings: conf.Settings) -> Iterator[CheckMessage]:
    for key, needs in (("TENANCY", TENANCY_METHODS), ("ACTOR_RESOLVER", ("__call__",))):
        path = getattr(settings, key)
        fault = _import_fault(path, needs) if path is not None else ""
        if fault:
            yield _message(
                "E012",
                f'WEBHOOKS["{key}"] is "{path}": {fault}.',
                f"Give the dotted path of something that has {', '.join(needs)}.",
            )


def _import_fault(path: str, needs: Sequence[str]) -> str:
    try:
        target = import_string(path)
    except Exception as error:  # the host's module may fail in any way while it is imported
        return f"cannot be imported ({type(error).__name__})"
    missing = [name for name in needs if not callable(getattr(target, name, None))]
    return f"has no {', '.join(missing)}" if missing else ""


def _time_zones(settings: conf.Settings) -> Iterator[CheckMessage]:
    if not django_settings.USE_TZ:
        yield _message(
            "E013",
            "USE_TZ is off: the webhook sender stores and compares aware times.",
            "Set USE_TZ = True; templates may still show local time through TIME_ZONE.",
        )


def _beat(settings: conf.Settings) -> Iterator[CheckMessage]:
    if settings.QUEUE != "celery":
        return
    scheduled = scheduled_tasks()
    if scheduled is not None and TICK not in scheduled:
        yield _message(
            "W004",
            f"Celery's beat schedule does not run {TICK}: retries and lost wake-ups would wait for ever.",
            "Add webhooks_app.beat_schedule() to the schedule of your Celery app, and import that app in the "
            "project's __init__.py.",
        )


_CHECKS = (
    _master_keys,
    _databases,
    _production_only,
    _allow_networks,
    _policy,
    _threads,
    _ca_bundle,
    _imports,
    _time_zones,
    _beat,
)
