"""The demo proper: `python -m project.demo FOLDER WEB_PORT RECEIVER_PORT DEAD_PORT [--once]`.

Started by `manage.py webhooks_demo`, which prepares the folder and the environment.
"""

import argparse
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import django

from project.demo.environment import Run
from project.demo.processes import ProcessDied, Processes
from project.demo.screen import Screen
from project.demo.waiting import TookTooLong

INTERRUPTED = 130
ONCE_SECONDS = 70
LOG_LINES = 15


def main() -> int:
    """Run the demo; return the exit code."""
    run, once = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    if once:
        signal.signal(signal.SIGALRM, _too_late)
        signal.alarm(ONCE_SECONDS)
    screen = Screen()
    try:
        django.setup()
        from project.demo.play import play

        with Processes(run) as processes:
            return 0 if play(run, processes, screen, once=once) else 1
    except KeyboardInterrupt:
        screen.end_progress()
        screen.say("Stopped; nothing is left running.")
        return INTERRUPTED if once else 0
    except (TookTooLong, ProcessDied, OSError) as error:
        screen.end_progress()
        screen.say(f"The demo did not work: {error}")
        for log in sorted(run.folder.glob("*.log")):
            screen.say(f"\n{log.name}:\n{_tail(log)}")
        return 1
    finally:
        shutil.rmtree(run.folder, ignore_errors=True)


def _arguments() -> tuple[Run, bool]:
    parser = argparse.ArgumentParser(prog="project.demo")
    parser.add_argument("folder", type=Path)
    for name in ("web_port", "receiver_port", "dead_port"):
        parser.add_argument(name, type=int)
    parser.add_argument("--once", action="store_true")
    given = parser.parse_args()
    return Run(given.folder, given.web_port, given.receiver_port, given.dead_port), given.once


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])


def _too_late(number: int, frame: Any) -> NoReturn:
    raise TookTooLong(f"the whole demo did not end within {ONCE_SECONDS} seconds")


def _leave(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
