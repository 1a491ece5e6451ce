"""Indexes of dead deliveries and of a partner's audit, built while others read and write."""

from django.db import migrations, models

from ._concurrently import AddIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("webhooks_app", "0004_indexes_without_locks")]

    operations = [
        AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "cancelled",
                            "dead_lettered",
                            "exhausted",
                            "expired",
                            "failed_permanent",
                            "window_exceeded",
                        ],
                    )
                ),
                fields=["endpoint", "event"],
                name="webhooks_delivery_dead",
            ),
        ),
        AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("partner_id__isnull", False)),
                fields=["partner_id", "id"],
                name="webhooks_audit_partner",
            ),
        ),
    ]
