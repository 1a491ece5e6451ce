"""Measurements of the whole product: `python -m bench [--quick] [--only NAME]`, or `make bench [QUICK=1]`.

Everything runs on this machine: a private PostgreSQL (fsync on) and Redis, a receiver, a Celery worker with
two processes. Each measurement has a database and a worker of its own, is warmed up, and prints one line of
JSON. Machines are noisy, so targets are ratios within one run wherever that is possible; `other_cores` tells
how much of the machine was busy with something else meanwhile.
"""
