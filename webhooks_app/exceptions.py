"""Errors of the webhook sender.

WebhooksError
├── ConfigurationError          a setting is wrong; the system checks list every fault
│   └── InvalidActor            a value of an Actor is refused, such as one of the host's resolver
├── EmitError                   nothing was written
│   ├── OutboxError             emit outside a transaction
│   └── InvalidEvent            a value of the event is refused; `path` says which
│       └── EventTooLarge       the envelope exceeds MAX_BODY_BYTES
└── ActionError                 a person's request cannot be carried out
    ├── InvalidRequest          `errors` lists path and message of every fault
    ├── NotFound                missing, or not the caller's to see
    ├── PermissionDenied        the caller lacks a permission
    ├── Conflict                the state of the object forbids it now
    └── LimitReached            too many endpoints

Every class has a machine `code`; errors that callers also know by a builtin name subclass it.
"""

from collections.abc import Sequence


class WebhooksError(Exception):
    """Something the webhook sender refuses."""

    code = "webhooks_error"


class ConfigurationError(WebhooksError):
    """The WEBHOOKS setting is wrong."""

    code = "configuration"


class InvalidActor(ConfigurationError, ValueError):
    """A caller cannot be described so: what the host's ACTOR_RESOLVER says of it is wrong."""

    code = "invalid_actor"


class EmitError(WebhooksError):
    """The event was not recorded."""

    code = "emit"


class OutboxError(EmitError, RuntimeError):
    """emit() was called outside transaction.atomic(): it could not share the fate of the business change."""

    code = "outbox_outside_transaction"


class InvalidEvent(EmitError, ValueError):
    """A value given to emit() is refused.

    Args:
        path: JSON Pointer of the value (`/data/lines/3/price`) or the name of the argument (`tenant`).
        message: what is wrong and what would be right.
    """

    code = "invalid_event"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class EventTooLarge(InvalidEvent):
    """The envelope is larger than MAX_BODY_BYTES."""

    code = "payload_too_large"


class ActionError(WebhooksError):
    """The action was not carried out; nothing changed.

    Args:
        message: what is wrong.
        code: machine code; the class's own by default.
        fix: what the caller can do about it.
    """

    code = "action_refused"
    retryable = False

    def __init__(self, message: str, *, code: str | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fix = fix

    @property
    def told(self) -> str:
        """What is wrong and what can be done about it, as people read it."""
        return f"{self.message}. {self.fix}".strip()


class InvalidRequest(ActionError, ValueError):
    """Values of the request are refused.

    Args:
        errors: pairs of path (`url`, `headers/0/name`) and message.
    """

    code = "invalid_request"

    def __init__(self, errors: Sequence[tuple[str, str]], *, code: str | None = None, fix: str = "") -> None:
        super().__init__("; ".join(f"{path}: {message}" for path, message in errors), code=code, fix=fix)
        self.errors = list(errors)


class NotFound(ActionError, LookupError):
    """There is no such object, or the caller may not see it."""

    code = "not_found"


class PermissionDenied(ActionError):
    """The caller lacks a permission.

    Args:
        required: the permissions that it takes, as far as they have names.
    """

    code = "permission_denied"

    def __init__(
        self, message: str, *, required: Sequence[str] = (), code: str | None = None, fix: str = ""
    ) -> None:
        super().__init__(message, code=code, fix=fix)
        self.required = list(required)


class Conflict(ActionError):
    """The object's state forbids this now."""

    code = "conflict"


class LimitReached(ActionError):
    """A scope may have no more endpoints."""

    code = "webhook_limit_reached"
