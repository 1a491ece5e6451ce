"""The staff's view in Django's admin: evidence to read, and endpoints to run through `actions`."""

from . import api_keys, attempts, audit, deliveries, endpoints, events, jobs, outbox, tenancy

__all__ = ["api_keys", "attempts", "audit", "deliveries", "endpoints", "events", "jobs", "outbox", "tenancy"]
