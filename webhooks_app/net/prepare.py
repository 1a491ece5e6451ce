"""From a `Request` and its checked target to what `requests` sends, byte for byte as documented.

Prepared by hand, not by a Session: no re-quoting, no cookies, no .netrc, no proxies, no hooks.
"""

import re

import requests

from .. import __version__
from ..core.ssrf import Target
from .transport import Request

USER_AGENT = f"django-webhooks-app/{__version__}"

# Who sends one of these takes over the framing, the connection or the identity of the request.
RESERVED = frozenset(
    (
        "accept-encoding",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)

_METHOD = re.compile(r"[A-Z]{1,16}")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")


class BadRequestError(Exception):
    """A request that must not be sent. `detail`: "method" or "header"."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Prepared(requests.PreparedRequest):
    """A prepared request that remembers its target."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.url = target.url


def prepared(request: Request, target: Target) -> Prepared:
    """Build the request that is sent to `target`. Raises BadRequestError.

    Header rows keep their order and case. Names are tokens and values visible ASCII (RFC 9110 5.1, 5.5):
    the library below would send folded lines and raw bytes. A repeated name is refused.
    """
    if not _METHOD.fullmatch(request.method):
        raise BadRequestError("method")
    result = Prepared(target)
    result.method = request.method
    headers = _checked_headers(request.headers)
    headers["Accept-Encoding"] = "identity"
    headers["Content-Length"] = str(len(request.body))
    # Nobody looks names up in another case; a CaseInsensitiveDict costs a tenth of the whole request.
    result.headers = headers  # type: ignore[assignment]
    result.body = request.body
    return result


def _checked_headers(rows: tuple[tuple[str, str], ...]) -> dict[str, str]:
    names = set()
    for name, value in rows:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadRequestError("header")
        names.add(name.lower())
    if len(names) < len(rows) or names & RESERVED:
        raise BadRequestError("header")
    headers = dict(rows)
    if "user-agent" not in names:
        headers["User-Agent"] = USER_AGENT
    return headers
