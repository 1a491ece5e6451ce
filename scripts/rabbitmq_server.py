"""A private RabbitMQ node with its own name server (epmd)."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.processes import Server, ServerError, ask, free_port

# The plain script; Debian's /usr/sbin/rabbitmq-server insists on the account of the system's own node.
SCRIPTS = Path("/usr/lib/rabbitmq/bin")


def find_program() -> str | None:
    """Return the path of the server script."""
    script = SCRIPTS / "rabbitmq-server"
    return str(script) if script.exists() else shutil.which("rabbitmq-server")


class Epmd(Server):
    """Erlang's name server on a port of our own; it would otherwise be shared and outlive the node."""

    name = "epmd"

    def command(self) -> Sequence[str]:
        program = shutil.which("epmd")
        if program is None:
            raise ServerError("epmd is not installed (package erlang-base)")
        return [program, "-port", str(self.port), "-address", "127.0.0.1"]

    def ready(self) -> bool:
        return bool(ask(self.port, b"\x00\x01n"))  # NAMES_REQ


class RabbitMQ(Server):
    """RabbitMQ on a free loopback port, user guest, no plugins. Takes 5 to 8 s to start."""

    name = "rabbitmq"
    start_seconds = 60.0

    def __init__(self) -> None:
        program = find_program()
        if program is None:
            raise ServerError("RabbitMQ is not installed (package rabbitmq-server)")
        super().__init__()
        self.program = program
        self.dist_port = free_port()
        self.epmd = Epmd()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"

    @property
    def node(self) -> str:
        """The node's name, unique on the machine."""
        return f"wh{self.port}@localhost"

    def prepare(self) -> None:
        self.epmd.start()
        (self.folder / "plugins").write_text("[].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.file = false\n"
        )

    def command(self) -> Sequence[str]:
        return [self.program]

    def environment(self) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "ERL_EPMD_PORT": str(self.epmd.port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_CRASH_DUMP_BYTES": "0",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_PID_FILE": f"{folder}/rabbitmq.pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def ready(self) -> bool:
        return ask(self.port, b"AMQP\x00\x00\x09\x01").startswith(b"\x01")  # Connection.Start

    def stop(self) -> None:
        super().stop()
        self.epmd.stop()

    def kill(self) -> None:
        super().kill()
        self.epmd.kill()

    def close(self) -> None:
        super().close()
        self.epmd.close()
