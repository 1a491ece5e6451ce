"""Whether an event's payload is there: an erasure takes it for good, and prune by its retention."""

from django.db.models import Q

from ..models import Event


def has_payload(of: str = "") -> Q:
    """Return the condition that an event has its payload; `of` leads to the event, such as `event__`."""
    return Q(**{f"{of}body__isnull": False}) | Q(**{f"{of}outbox_id__isnull": False})


def is_bare(event: Event) -> bool:
    """Whether the event's payload is gone."""
    return event.body is None and event.outbox_id is None
