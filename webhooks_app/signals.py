"""Public signals. Receivers get `sender` (a class of this app) and the arguments named here; errors are logged.

attempt_recorded    sender=Attempt: endpoint_id, event_id, event_type, number, status, error, http_status,
                    duration_ms (milliseconds). After the record committed, once per attempt.
delivery_ended      sender=Delivery: endpoint_id, event_id, state, error, attempts. After commit, once per end.
endpoint_disabled   sender=Endpoint: endpoint_id, reason. After commit, once per disable by the sender itself.
entry_set_aside     sender=OutboxEntry: event_id, outbox_alias. A fan-out failed three times and needs a person.
"""

from django.dispatch import Signal

attempt_recorded = Signal()
delivery_ended = Signal()
endpoint_disabled = Signal()
entry_set_aside = Signal()
