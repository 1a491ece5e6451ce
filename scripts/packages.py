"""Debian packages: install what is missing when we are root, else say which command does."""

import os
import shutil
import subprocess
from collections.abc import Sequence


def install(packages: Sequence[str]) -> bool:
    """Install packages with apt-get; return whether that worked. Not root: print the command."""
    command = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"missing: {', '.join(packages)}. Install with: sudo {command}", flush=True)
        return False
    print(f"installing with apt-get: {', '.join(packages)}", flush=True)
    # RUNLEVEL=1 keeps the packages from starting servers: ours are private.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            print(f"{command} failed:\n{done.stdout[-2000:]}", flush=True)
            return False
    return True
