"""`manage.py webhooks_demo`: the whole product on one screen."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from project.demo import environment
from project.demo.customers import HOSTS


class Command(BaseCommand):
    """Starts the demo in an environment of its own; the settings of this process are not used."""

    help = "Runs the whole product from this checkout alone and says what happens."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare --once."""
        parser.add_argument(
            "--once",
            action="store_true",
            help="run through and end: exit code 0 only when everything arrived and was verified",
        )

    def handle(self, *args: Any, once: bool, **options: Any) -> None:
        """Prepare a run and become it, so that signals reach it directly."""
        run = environment.prepare(HOSTS, once=once)
        arguments = environment.command(run, once=once)
        os.chdir(environment.ROOT)
        os.execve(arguments[0], arguments, environment.variables(run, HOSTS))
