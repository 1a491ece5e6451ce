"""Reseal: move secrets to the first master key, so that an old key can be taken out of the settings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F

from .. import conf
from ..core.sealing import VERSION, SealingError
from ..destinations import sealing
from ..models import Endpoint, EndpointSecret
from . import audit
from .actor import operator


@dataclass(frozen=True, slots=True)
class Resealed:
    """Values moved to the first key, values still under another, and those among them that do not open.

    A value is one signing secret, or the secret headers of one endpoint.
    """

    done: int
    remaining: int
    failed: int


def reseal(*, limit: int | None = None) -> Resealed:
    """Seal with the first master key what another one sealed.

    Each value has a transaction of its own and is changed only if nobody changed it meanwhile; so it may run
    beside everything else, be stopped, and run again.

    Args:
        limit: at most so many values; None = all.

    Raises:
        ConfigurationError: MASTER_KEYS is empty.
    """
    alias, kid = conf.current().DATABASE, sealing.sealing_keyring().kid
    done = failed = 0
    for move in _outdated(alias, kid):
        if limit is not None and done >= limit:
            break
        try:
            done += move()
        except SealingError:
            failed += 1
    if done:
        details = {"done": done, "failed": failed, "kid": kid}
        audit.record(operator("system", "reseal"), "secrets.resealed", details=details)
    return Resealed(done, sum(1 for _ in _outdated(alias, kid)), failed)


def _outdated(alias: str, kid: str) -> Iterator[Callable[[], bool]]:
    """Yield, for each value under another key, the function that moves it."""
    current = f"{VERSION}.{kid}."
    secrets = EndpointSecret.objects.using(alias).exclude(sealed__startswith=current).order_by("pk")
    for pk in list(secrets.values_list("pk", flat=True)):
        yield partial(_reseal_secret, alias, pk)
    endpoints = Endpoint.objects.using(alias).exclude(headers=[]).order_by("pk")
    for pk, headers in list(endpoints.values_list("pk", "headers")):
        if any(_is_outdated(header, current) for header in headers):
            yield partial(_reseal_headers, alias, pk, current)


def _is_outdated(header: dict[str, Any], current: str) -> bool:
    return "sealed" in header and not header["sealed"].startswith(current)


def _reseal_secret(alias: str, pk: int) -> bool:
    row = EndpointSecret.objects.using(alias).select_related("endpoint").filter(pk=pk).first()
    if row is None:
        return False
    public_id = row.endpoint.public_id
    secret = sealing.open_secret(public_id, row.version, row.sealed)
    with transaction.atomic(using=alias):
        _bump(alias, row.endpoint_id)
        same = EndpointSecret.objects.using(alias).filter(pk=pk, sealed=row.sealed)
        return bool(same.update(sealed=sealing.seal_secret(public_id, row.version, secret)))


def _reseal_headers(alias: str, pk: int, current: str) -> bool:
    with transaction.atomic(using=alias):
        row = Endpoint.objects.using(alias).select_for_update(no_key=True).filter(pk=pk).first()
        if row is None:
            return False
        headers = [_moved(row.public_id, header, current) for header in row.headers]
        _bump(alias, pk)
        return bool(Endpoint.objects.using(alias).filter(pk=pk).update(headers=headers))


def _moved(public_id: str, header: dict[str, Any], current: str) -> dict[str, Any]:
    if not _is_outdated(header, current):
        return header
    value = sealing.open_header(public_id, header["name"], header["sealed"])
    return {**header, "sealed": sealing.seal_header(public_id, header["name"], value)}


def _bump(alias: str, endpoint_id: int) -> None:
    """Make every process read the endpoint anew before the old key is taken away."""
    Endpoint.objects.using(alias).filter(pk=endpoint_id).update(revision=F("revision") + 1)
