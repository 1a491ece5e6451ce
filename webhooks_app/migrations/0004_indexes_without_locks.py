"""Indexes of tables that may be large, built while others read and write."""

from django.db import migrations, models

from ._concurrently import AddIndex, RemoveIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("webhooks_app", "0003_policies_and_recovery")]

    operations = [
        AddIndex(
            model_name="endpointstate",
            index=models.Index(
                condition=models.Q(("breaker", "closed"), _negated=True),
                fields=["endpoint"],
                name="webhooks_state_breaker",
            ),
        ),
        AddIndex(
            model_name="outboxentry",
            index=models.Index(
                condition=models.Q(("dispatched_at__isnull", True), ("set_aside_at__isnull", True)),
                fields=["tenant_id", "id"],
                name="webhooks_outbox_by_tenant",
            ),
        ),
        RemoveIndex(model_name="outboxentry", name="webhooks_outbox_waiting"),
    ]
