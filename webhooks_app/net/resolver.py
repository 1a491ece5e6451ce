"""DNS with a deadline: every address of a name, or a typed failure.

`getaddrinfo` has no timeout, so it runs in a daemon thread that nobody waits for longer than allowed.
"""

import os
import socket
import threading
import time
from functools import lru_cache
from typing import Any

from .options import StaticHosts

MAX_LOOK_UPS = 32

_NOT_FOUND = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class ResolutionError(Exception):
    """A name has no answer. `detail`: not_found, temporary, failed, no_address, dns_timeout, dns_busy."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def resolve(host: str, *, timeout: float, static_hosts: StaticHosts = ()) -> tuple[str, ...]:
    """Return every address of `host` (A and AAAA), unchecked, waiting at most `timeout` seconds.

    Raises ResolutionError.
    """
    addresses = static_addresses(host, static_hosts)
    if addresses is None:
        addresses = _look_up(host, timeout)
    if not addresses:
        raise ResolutionError("no_address")
    return addresses


@lru_cache(maxsize=1024)
def static_addresses(host: str, static_hosts: StaticHosts) -> tuple[str, ...] | None:
    """Return the addresses configured for a lower-case name, else None; the longest suffix wins."""
    table = {name.lower(): addresses for name, addresses in static_hosts}
    if host in table:
        return table[host]
    labels = host.split(".")
    suffixes = (f"*.{'.'.join(labels[index:])}" for index in range(1, len(labels)))
    return next((table[suffix] for suffix in suffixes if suffix in table), None)


def system_addresses(host: str) -> tuple[str, ...]:
    """Ask the system's resolver. Raises OSError.

    The trailing dot makes the name absolute: search domains, which lead to internal names, are not tried.
    """
    answers = socket.getaddrinfo(f"{host}.", None, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    return tuple(_text(family, address) for family, _, _, _, address in answers)


def _text(family: int, address: tuple[Any, ...]) -> str:
    zone = address[3] if family == socket.AF_INET6 else 0
    return f"{address[0]}%{zone}" if zone and "%" not in str(address[0]) else str(address[0])


class _LookUp(threading.Thread):
    """One call of the resolver; `addresses` or `error` is set when `done` is."""

    def __init__(self, host: str, slots: threading.BoundedSemaphore) -> None:
        super().__init__(name="webhooks-dns", daemon=True)
        self.host = host
        self.slots = slots
        self.done = threading.Event()
        self.addresses: tuple[str, ...] = ()
        self.error: OSError | UnicodeError | None = None

    def run(self) -> None:
        try:
            self.addresses = system_addresses(self.host)
        except (OSError, UnicodeError) as error:
            self.error = error
        finally:
            self.slots.release()
            self.done.set()


_slots = threading.BoundedSemaphore(MAX_LOOK_UPS)


def _renew_slots() -> None:
    """The threads that hold slots do not exist in a forked child."""
    global _slots
    _slots = threading.BoundedSemaphore(MAX_LOOK_UPS)


os.register_at_fork(after_in_child=_renew_slots)


def _look_up(host: str, timeout: float) -> tuple[str, ...]:
    slots = _slots
    end = time.monotonic() + timeout
    if not slots.acquire(timeout=max(0.0, timeout)):
        raise ResolutionError("dns_busy")
    look_up = _LookUp(host, slots)
    try:
        look_up.start()
    except RuntimeError as error:  # no more threads
        slots.release()
        raise ResolutionError("dns_busy") from error
    if not look_up.done.wait(max(0.0, end - time.monotonic())):
        raise ResolutionError("dns_timeout")
    if look_up.error is not None:
        raise ResolutionError(_detail(look_up.error)) from look_up.error
    return look_up.addresses


def _detail(error: OSError | UnicodeError) -> str:
    number = getattr(error, "errno", None)
    if number in _NOT_FOUND:
        return "not_found"
    return "temporary" if number == socket.EAI_AGAIN else "failed"
