"""Send webhooks from Django: an outbox in your transaction, signed deliveries, retries for days."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Actor", "__version__", "beat_schedule", "emit", "emit_many", "event_type"]

if TYPE_CHECKING:
    from .actions.actor import Actor
    from .beat import beat_schedule
    from .event_types import event_type
    from .events import emit, emit_many

_LAZY = {
    "Actor": "actions.actor",
    "beat_schedule": "beat",
    "emit": "events",
    "emit_many": "events",
    "event_type": "event_types",
}


def __getattr__(name: str) -> Any:
    """Load public names on first use: the app's root is imported before Django's registry is ready."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
