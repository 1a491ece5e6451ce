"""Events that come in through the API: for whom the caller may speak, and the id that keeps tenants apart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from django.db import transaction

from .. import conf
from ..actions.actor import Actor
from ..actions.tenancy import partner_of, partners_of
from ..core.ids import IdError, tenant_event_id
from ..events import EventRef, emit_many
from ..exceptions import ActionError, Conflict, InvalidEvent, InvalidRequest, NotFound
from ..models import OutboxEntry

Names = Mapping[str, str]
# Place in the list and path within the event -> the path in the caller's words; the empty path is the event.
NameAt = Callable[[str, str], str]
PartnerOf = Callable[[str], str | None]
# What `emit` calls its arguments, in the words of the API.
NAMES: Final[Names] = {
    "tenant": "tenant_id",
    "identity": "identity_id",
    "owner kind": "owner/kind",
    "owner id": "owner/id",
}


def ingest(actor: Actor, values: Mapping[str, Any], names: Names = NAMES) -> EventRef:
    """Record one event for the caller's tenant, for one of its tenants, or (platform) for any or none.

    Args:
        names: what the caller calls the values, for its errors.

    Raises:
        InvalidRequest, InvalidEvent: a value is refused.
        NotFound: `tenant_not_found`, somebody else's.
        Conflict: `event_id_conflict`, the id names an event of the other environment.
    """
    return _ingest(actor, [values], lambda _, path: _renamed(path, names))[0]


def ingest_many(
    actor: Actor, events: Sequence[Mapping[str, Any]], *, at: str = "", names: Names = NAMES
) -> list[EventRef]:
    """Record events in one transaction, all or none; errors name the place of the event in the list.

    Args:
        at: where the list stands in the request, such as `events/`.

    Raises as `ingest`.
    """
    return _ingest(actor, events, lambda place, path: f"{at}{place}/{_renamed(path, names)}".rstrip("/"))


def tenant_for(actor: Actor, given: str | None, partner: PartnerOf | None = None) -> str | None:
    """Return the tenant that an event of the caller's is about.

    Args:
        partner: tells the partner of a tenant; default: it is looked up.

    Raises:
        InvalidRequest: a partner has to name one of its tenants.
        NotFound: `tenant_not_found`, somebody else's.
    """
    if actor.scope == "platform":
        return given
    if actor.scope == "partner":
        if given is None:
            raise InvalidRequest([("tenant_id", "is required: name one of the partner's tenants")])
        look_up = partner or partial(partner_of, conf.current().DATABASE)
        own = look_up(given) == actor.scope_id
    else:
        own = given in (None, actor.scope_id)
    if not own or actor.scope_id is None:
        raise NotFound("there is no such tenant", code="tenant_not_found")
    return given or actor.scope_id


def environment_for(actor: Actor, given: str | None) -> str:
    """Return the environment of an event of the caller's. Raises InvalidRequest for another than its own."""
    if given is not None and actor.environment not in (None, given):
        raise InvalidRequest([("environment", f"must be {actor.environment}, like the key's")])
    return given or actor.environment or "live"


@contextmanager
def told_as(name: Callable[[str], str]) -> Iterator[None]:
    """Let errors speak of values by the caller's names; `name` turns a path of ours into one of theirs."""
    try:
        yield
    except InvalidEvent as error:
        raise type(error)(name(error.path.lstrip("/")), error.message) from None
    except InvalidRequest as error:
        told = [(name(path), message) for path, message in error.errors]
        raise InvalidRequest(told, code=error.code, fix=error.fix) from None
    except ActionError as error:
        place = name("")
        message = f"{place}: {error.message}" if place else error.message
        raise type(error)(message, code=error.code, fix=error.fix) from None


def _ingest(actor: Actor, events: Sequence[Mapping[str, Any]], name: NameAt) -> list[EventRef]:
    tenant = partial(tenant_for, actor, partner=_partners(actor, events).get)
    items = []
    for place, values in enumerate(events):
        with told_as(partial(name, str(place))):
            items.append(_item(actor, values, tenant))
    with transaction.atomic(using=conf.current().DATABASE):
        with told_as(lambda path: name(*path.partition("/")[::2])):
            refs = emit_many(items, using=conf.current().DATABASE)
        _check_environments(refs, items, name)
    return refs


def _partners(actor: Actor, events: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the partners of the tenants named, where they are asked for; one query for all."""
    if actor.scope != "partner":
        return {}
    named = {values["tenant_id"] for values in events if values.get("tenant_id") is not None}
    return partners_of(conf.current().DATABASE, named)


def _item(
    actor: Actor, values: Mapping[str, Any], tenant: Callable[[str | None], str | None]
) -> dict[str, Any]:
    """Return the arguments of `emit`."""
    tenant_id, owner = tenant(values.get("tenant_id")), values.get("owner")
    return {
        "type": values["type"],
        "data": values["data"],
        "tenant": tenant_id,
        "identity": values.get("identity_id"),
        "owner": (owner["kind"], owner["id"]) if owner else None,
        "subject": values.get("subject"),
        "event_id": _event_id(tenant_id, values.get("event_id")),
        "occurred_at": values.get("occurred_at"),
        "expires_at": values.get("expires_at"),
        "environment": environment_for(actor, values.get("environment")),
    }


def _event_id(tenant_id: str | None, given: str | None) -> str | None:
    try:
        return None if given is None else tenant_event_id(tenant_id, given)
    except IdError as error:
        raise InvalidRequest([("event_id", str(error))]) from None


def _check_environments(refs: Sequence[EventRef], items: Sequence[Mapping[str, Any]], name: NameAt) -> None:
    """Refuse to take a test's event for the live one of its id: the live one would be lost in silence."""
    known = {ref.id for ref in refs if not ref.created}
    if not known:
        return
    rows = OutboxEntry.objects.using(conf.current().DATABASE).filter(event_id__in=known)
    environments = dict(rows.values_list("event_id", "environment"))
    for place, (ref, item) in enumerate(zip(refs, items, strict=True)):
        if environments.get(ref.id, item["environment"]) != item["environment"]:
            with told_as(partial(name, str(place))):
                raise Conflict(
                    "the event_id names an event of the other environment", code="event_id_conflict"
                )


def _renamed(path: str, names: Names) -> str:
    first, *rest = path.split("/")
    return "/".join([names.get(first, first), *rest])
