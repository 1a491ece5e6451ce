"""TLS contexts: certificates are always verified, and there is no way to switch that off."""

import os
import ssl
from functools import lru_cache

from requests.utils import DEFAULT_CA_BUNDLE_PATH

from .sockets import GuardedSSLSocket


@lru_cache(maxsize=16)
def client_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """Return the shared context that trusts `ca_bundle`, a PEM file or a folder; None: what certifi has.

    One context for all connections: reading a bundle costs more CPU than a handshake. TLS 1.2 or later,
    and names are compared with subject alternative names only (RFC 9525 6.3). Raises OSError when the
    bundle cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    context.sslsocket_class = GuardedSSLSocket
    bundle = ca_bundle or DEFAULT_CA_BUNDLE_PATH
    if os.path.isdir(bundle):
        context.load_verify_locations(capath=bundle)
    else:
        context.load_verify_locations(cafile=bundle)
    return context
