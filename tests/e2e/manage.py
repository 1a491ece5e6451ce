"""Django's command line with the settings that a test chose: `python -m tests.e2e.manage COMMAND`."""

import os
import sys

import django
from django.core.management import execute_from_command_line

from tests.e2e import tuning
from tests.e2e.choice import choice

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.e2e.settings")
    django.setup()
    tuning.apply(choice())
    execute_from_command_line(sys.argv)
