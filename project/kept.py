"""Values that a development checkout makes once and keeps in its data folder."""

import base64
import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def kept_secret(path: Path) -> str:
    """Return the secret in `path`: base64 of 32 random bytes, made at the first call, for its owner only.

    Processes that start at the same moment agree: the file appears complete, and the first one wins.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, mine = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "w") as out:
            out.write(base64.b64encode(secrets.token_bytes(32)).decode())
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)
        os.unlink(mine)
    return path.read_text().strip()
