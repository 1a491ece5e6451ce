"""Public signals. Receivers get `sender` (a model) and the arguments named here; what they raise is logged.

attempt_recorded    sender=Attempt. After the record committed, once per attempt: endpoint_id, event_id,
                    event_type, number, status, error, http_status, duration_ms (milliseconds).
delivery_ended      sender=Delivery. After commit, once per end other than delivered: endpoint_id, event_id,
                    state, error, attempts.
breaker_changed     sender=Endpoint. After commit: endpoint_id, state (open, half_open, closed), reason (an
                    error code).
endpoint_disabled   sender=Endpoint. After commit, when the sender itself disabled it: endpoint_id, reason.
endpoint_recovered  sender=Endpoint. After commit, when an endpoint that was warned about, or whose breaker
                    was open, takes deliveries again: endpoint_id, reason (delivered, breaker_closed).
endpoint_warned     sender=Endpoint. After commit, when it has failed for long but is not disabled yet, or
                    redirects: endpoint_id, reason (failing, redirect).
entry_set_aside     sender=OutboxEntry. A fan-out failed three times and needs a person: event_id,
                    outbox_alias.
"""

from django.dispatch import Signal

attempt_recorded = Signal()
delivery_ended = Signal()
breaker_changed = Signal()
endpoint_disabled = Signal()
endpoint_recovered = Signal()
endpoint_warned = Signal()
entry_set_aside = Signal()
