"""Public signals. Receivers get `sender` (a model) and the arguments named here; what they raise is logged.

attempt_recorded    sender=Attempt. After the record committed, once per attempt: endpoint_id, event_id,
                    event_type, number, status, error, http_status, duration_ms (milliseconds).
delivery_ended      sender=Delivery. After commit, once per end other than delivered: endpoint_id, event_id,
                    state, error, attempts.
endpoint_disabled   sender=Endpoint. After commit, when the sender itself disabled it: endpoint_id, reason.
entry_set_aside     sender=OutboxEntry. A fan-out failed three times and needs a person: event_id,
                    outbox_alias.
"""

from django.dispatch import Signal

attempt_recorded = Signal()
delivery_ended = Signal()
endpoint_disabled = Signal()
entry_set_aside = Signal()
