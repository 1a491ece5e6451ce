"""What every destination returns for one request: the facts, not yet judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The outcome of one request.

    ``error`` is ``""`` after a 2xx (or a broker's durable acknowledgement), else one of ``states.ERRORS``.
    ``detail`` is a short machine word such as ``dns_timeout``; never a URL or an exception's text, because
    both may carry secrets. ``duration_ms`` is in milliseconds. ``headers`` and ``body`` are the beginning
    of the reply, already capped; ``body_complete`` is false when the body was cut or broke off.
    """

    error: str = ""
    http_status: int | None = None
    detail: str = ""
    duration_ms: int = 0
    target_ip: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    body_complete: bool = True

    @property
    def ok(self) -> bool:
        """Whether the receiver took the event."""
        return self.error == ""

    def header(self, name: str) -> str | None:
        """Return the reply header ``name`` (any case), outer blanks removed.

        ``None`` when it is absent, and when it came more than once with different values: nobody can say
        which of them was meant (RFC 9110 §5.3 allows repeats only for list fields).
        """
        wanted = name.lower()
        values = {value.strip(" \t") for key, value in self.headers if key.lower() == wanted}
        return values.pop() if len(values) == 1 else None
