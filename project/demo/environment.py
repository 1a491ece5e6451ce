"""What one run of the demo needs before Django starts: a folder, ports, certificates, variables."""

import base64
import contextlib
import fcntl
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import certifi
import trustme

ROOT = Path(__file__).resolve().parent.parent.parent
FAVOURITE_PORT = 8000
OURS = ("DATABASE_URL", "CELERY_BROKER_URL", "CACHE_URL", "ALLOWED_HOSTS", "DEBUG", "DJANGO_", "WEBHOOKS_")


@dataclass(frozen=True, slots=True)
class Run:
    """The folder and the loopback ports of one run."""

    folder: Path
    web_port: int
    receiver_port: int
    dead_port: int

    @property
    def site(self) -> str:
        """Where the web pages and the API are."""
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def certificate(self) -> Path:
        """PEM file with the key and the chain of the customers' systems."""
        return self.folder / "customers.pem"

    @property
    def ca_bundle(self) -> Path:
        """PEM file with the usual authorities and this run's own."""
        return self.folder / "authorities.pem"


def prepare(hosts: Iterable[str], *, once: bool) -> Run:
    """Make the folder of a new run, with certificates for the customers' host names.

    Only a run that people look at asks for the favourite port.
    """
    (ROOT / "data").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir=ROOT / "data"))
    web, receiver, dead = free_ports(0 if once or not _claims_favourite() else FAVOURITE_PORT)
    run = Run(folder, web, receiver, dead)
    authority = trustme.CA()
    authority.issue_cert(*hosts).private_key_and_cert_chain_pem.write_to_path(str(run.certificate))
    # With the usual authorities kept, an address of your own can be registered in the demo as well.
    run.ca_bundle.write_bytes(Path(certifi.where()).read_bytes() + b"\n" + authority.cert_pem.bytes())
    return run


def variables(run: Run, hosts: Iterable[str]) -> dict[str, str]:
    """Return the environment of every process of the run: ours, and nothing of ours that was set outside."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {
        "DEBUG": "true",
        "DATABASE_URL": f"sqlite:///{run.folder / 'db.sqlite3'}",
        "CELERY_BROKER_URL": f"filesystem://{run.folder / 'broker'}",
        "DJANGO_SECRET_KEY": secrets.token_urlsafe(40),
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "PYTHONUNBUFFERED": "1",
        "WEBHOOKS_MASTER_KEYS": base64.b64encode(secrets.token_bytes(32)).decode(),
        "WEBHOOKS_STATIC_HOSTS": ",".join(f"{host}=127.0.0.1" for host in hosts),
        "WEBHOOKS_ALLOW_NETWORKS": "127.0.0.0/8",
        "WEBHOOKS_EXTRA_PORTS": f"443,{run.receiver_port},{run.dead_port}",
        "WEBHOOKS_CA_BUNDLE": str(run.ca_bundle),
    }


def command(run: Run, *, once: bool) -> list[str]:
    """Return the command line of the demo proper."""
    ports = [str(port) for port in (run.web_port, run.receiver_port, run.dead_port)]
    return [sys.executable, "-m", "project.demo", str(run.folder), *ports, *(["--once"] if once else [])]


def free_ports(favourite: int) -> tuple[int, int, int]:
    """Return three free loopback ports; the first is `favourite` (0 = any) when nobody has it."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(3)]
        for probe, wanted in zip(probes, (favourite, 0, 0), strict=True):
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                probe.bind(("127.0.0.1", 0))
        web, receiver, dead = [int(probe.getsockname()[1]) for probe in probes]
    return web, receiver, dead


def _claims_favourite() -> bool:
    """Whether no other demo has, or is about to take, the favourite port; kept until this process ends."""
    lock = os.open(ROOT / "data" / f"port-{FAVOURITE_PORT}.lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    os.set_inheritable(lock, True)
    return True
