"""Celery's `filesystem://` broker, made safe for several processes: nobody sees half a written message.

Kombu's own writes a message under its final name, so a worker that looks at that moment reads half of it and
ends with an error. For development only: a folder is no broker for production.
"""

import os
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Writes atomically."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        """Write a message under a name that no reader looks for, then rename it."""
        final = Path(self.data_folder_out) / f"{time.monotonic_ns():020}_{uuid.uuid4()}.{queue}.msg"
        hidden = final.with_suffix(".part")
        hidden.write_text(dumps(payload))
        os.replace(hidden, final)

    def get_table(self, exchange: str) -> list[Any]:
        """Return the bindings of an exchange; none yet when its file is being made at this moment."""
        try:
            return list(super().get_table(exchange))
        except ValueError:
            return []


class Transport(filesystem.Transport):
    """The transport that `filesystem://` stands for after `install()`."""

    Channel = Channel


def install() -> None:
    """Let `filesystem://` mean this transport, in this process."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
