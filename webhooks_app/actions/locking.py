"""Locks of the actions, in the order of the whole product: limit row, Endpoint, EndpointState, deliveries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

from django.db import transaction

from .. import conf
from ..models import Endpoint, EndpointState, PipelineLock
from .actor import Actor
from .scope import visible_endpoints, webhook_not_found

Check = Callable[[Endpoint, EndpointState], None]


@contextmanager
def locked(
    actor: Actor, endpoint: Endpoint, check: Check | None = None
) -> Iterator[tuple[Endpoint, EndpointState]]:
    """Open a transaction and yield the endpoint and its state as they are now, both locked.

    Args:
        check: called with both first; raises to leave them as they are.

    Raises NotFound when it was deleted meanwhile, or was never the actor's to see.
    """
    alias = conf.current().DATABASE
    with transaction.atomic(using=alias):
        fresh = lock_endpoint(actor, endpoint)
        state = lock_state(alias, fresh.pk)
        if check is not None:
            check(fresh, state)
        yield fresh, state


def lock_endpoint(actor: Actor, endpoint: Endpoint) -> Endpoint:
    """Lock the endpoint and return it as it is now. Raises NotFound like `locked`."""
    fresh = visible_endpoints(actor).select_for_update(no_key=True).filter(pk=endpoint.pk).first()
    if fresh is None:
        raise webhook_not_found()
    return fresh


def lock_state(alias: str, endpoint_id: int) -> EndpointState:
    """Lock the state row of an endpoint; needed before any open delivery of it is touched."""
    return EndpointState.objects.using(alias).select_for_update(no_key=True).get(pk=endpoint_id)


def lock_limit(alias: str, scope: str, scope_id: str | None) -> None:
    """Let one transaction at a time add endpoints to a scope, so that two cannot both take the last place."""
    name = f"endpoints:{scope}"
    if scope_id is not None:
        # The column is shorter than an id may be.
        name += ":" + sha256(scope_id.encode()).hexdigest()[:40]
    locks = PipelineLock.objects.using(alias)
    locks.bulk_create([PipelineLock(name=name)], ignore_conflicts=True)
    locks.select_for_update(no_key=True).get(pk=name)
