"""What processes use, from /proc: CPU seconds, resident memory, threads."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from scripts.processes import descendants

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and all below it, those that ended included."""
    return sum(cpu_of(Path(f"/proc/{each}/stat")) for each in descendants(pid))


def machine_seconds() -> float:
    """Return the CPU seconds that all processors were busy since the machine started."""
    values = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, waiting = values[3], values[4]
    return (sum(values) - idle - waiting) / _TICKS


def resident_mb(pid: int) -> float:
    """Return the resident memory of one process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def threads(pid: int) -> int:
    """Return how many threads a process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def cpu_of(stat: Path) -> float:
    """Return the CPU seconds that a `stat` file of a process or thread tells; 0 when it is gone."""
    with contextlib.suppress(OSError):
        fields = stat.read_text().rpartition(")")[2].split()
        # User and system time, own and of children that were waited for (proc(5), fields 14 to 17).
        return sum(int(value) for value in fields[11:15]) / _TICKS
    return 0.0


class Meter:
    """CPU seconds of named process trees since `start`, and how much the rest of the machine used."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._begun = self._read()
        self._machine = machine_seconds()

    def used(self) -> dict[str, float]:
        """Return the CPU seconds of each tree, and under `others` those of everything else."""
        now = self._read()
        used = {name: now[name] - self._begun[name] for name in now}
        used["others"] = max(0.0, machine_seconds() - self._machine - sum(used.values()))
        return used

    def _read(self) -> dict[str, float]:
        own = cpu_of(Path("/proc/self/stat"))
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()} | {"bench": own}


def largest_mb(pids: Iterable[int]) -> float:
    """Return the resident memory of the largest of these processes in MB."""
    return max(resident_mb(pid) for pid in pids)
