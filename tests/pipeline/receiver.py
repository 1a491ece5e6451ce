"""A receiver without a network: the transport of these tests, which answers by script."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.classify import error_of
from webhooks_app.models import Endpoint
from webhooks_app.net.transport import Request

Answer = AttemptResult | Callable[[Request], AttemptResult]


def reply(status: int = 200, *, duration_ms: int = 5, body: bytes = b"", **headers: str) -> AttemptResult:
    """Return the result of an HTTP answer; `retry_after="5"` is the header Retry-After."""
    rows = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return AttemptResult(
        error=error_of(status),
        http_status=status,
        duration_ms=duration_ms,
        target_ip="127.0.0.1",
        headers=rows,
        body=body,
    )


OK = reply(200)
TIMEOUT = AttemptResult(error="timeout", duration_ms=15_000)


class Receiver:
    """Takes requests and answers them: what is scripted for the URL, then what it always says, else 200."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._scripts: dict[str, deque[Answer]] = {}
        self._always: dict[str, Answer] = {}

    def script(self, endpoint: Endpoint, *answers: Answer) -> None:
        """Answer the endpoint's next requests with these, one after another."""
        self._scripts.setdefault(endpoint.url, deque()).extend(answers)

    def always(self, endpoint: Endpoint, answer: Answer) -> None:
        """Answer like this whatever is not scripted."""
        self._always[endpoint.url] = answer

    def post(self, request: Request) -> AttemptResult:
        """The interface of a transport."""
        with self._lock:
            self.requests.append(request)
            script = self._scripts.get(request.url)
            answer = script.popleft() if script else self._always.get(request.url, OK)
        return answer if isinstance(answer, AttemptResult) else answer(request)

    def close(self) -> None:
        """The interface of a transport."""

    def to(self, endpoint: Endpoint) -> list[Request]:
        """Return the requests that went to an endpoint's URL."""
        return [request for request in self.requests if request.url == endpoint.url]

    def ids(self, endpoint: Endpoint | None = None) -> list[str]:
        """Return the webhook-id of every request (to an endpoint), in their order."""
        requests = self.requests if endpoint is None else self.to(endpoint)
        return [headers_of(request)["webhook-id"] for request in requests]


def headers_of(request: Any) -> dict[str, str]:
    """Return a request's headers with names in lower case."""
    return {name.lower(): value for name, value in request.headers}
