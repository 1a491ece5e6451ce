"""The `requests` adapter: guarded pools below, nothing from the environment above.

`send` is the stock one, so tools that patch `HTTPAdapter.send` work. The methods it calls are replaced
where the stock ones read the environment, use proxies, reload the CA bundle or collect cookies.
"""

from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool

from .options import NetOptions
from .pools import GuardedPools
from .prepare import Prepared


class Reply(requests.Response):
    """A response without the cost of a cookie jar and of guessing an encoding."""

    def __init__(self, request: requests.PreparedRequest, raw: Any) -> None:
        self._content = False  # type: ignore[assignment]  # "not read yet"
        self._content_consumed = False
        self._next = None
        self.request = request
        self.raw = raw
        self.status_code = raw.status
        self.headers = raw.headers
        self.reason = raw.reason
        self.url = request.url or ""
        self.history = []
        self.encoding = None


class GuardedAdapter(HTTPAdapter):
    """Sends `Prepared` requests over guarded connections."""

    def __init__(self, options: NetOptions) -> None:
        self._pools = GuardedPools(options)
        super().__init__(pool_connections=options.pools, pool_maxsize=options.per_host, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Use the guarded pools."""
        self.poolmanager = self._pools

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, verify: Any, proxies: Any = None, cert: Any = None
    ) -> HTTPConnectionPool:
        """Return the target's pool. What is asked for verification, proxies and client keys has no effect."""
        if not isinstance(request, Prepared):
            raise TypeError("only requests with a checked target are sent")
        return self._pools.pool_of(request.target)

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Return the path and query as checked; never the absolute form meant for proxies."""
        if not isinstance(request, Prepared):
            raise TypeError("only requests with a checked target are sent")
        return request.target.path

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """The pool's context verifies; the stock method reads the bundle again for each connection."""

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """There are no proxies. Raises TypeError."""
        raise TypeError("proxies are not supported")

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Wrap urllib3's response; cookies are not looked at."""
        return Reply(req, resp)
