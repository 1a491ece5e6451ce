"""Indexes of test events, which are few among the live ones, built while others read and write."""

from django.db import migrations, models

from ._concurrently import AddIndex


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("webhooks_app", "0006_hasten_jobs")]

    operations = [
        AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("environment", "test")),
                fields=["tenant_id", "occurred_at"],
                name="webhooks_event_tests",
            ),
        ),
        AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("environment", "test"), ("partner_id__isnull", False)),
                fields=["partner_id", "occurred_at"],
                name="webhooks_event_partner_tests",
            ),
        ),
    ]
