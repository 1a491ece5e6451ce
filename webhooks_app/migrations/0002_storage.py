"""PostgreSQL storage settings of the hot tables: room for in-page updates, and vacuum that keeps up."""

from django.db import migrations

SETTINGS = {
    "webhooks_app_endpointstate": "fillfactor = 40",
    "webhooks_app_ownersequence": "fillfactor = 50",
    "webhooks_app_delivery": "fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02",
    "webhooks_app_outboxentry": "fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02",
}


def tune(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table, parameters in SETTINGS.items():
            schema_editor.execute(f"ALTER TABLE {table} SET ({parameters})")


class Migration(migrations.Migration):
    dependencies = [("webhooks_app", "0001_initial")]

    operations = [migrations.RunPython(tune, migrations.RunPython.noop, elidable=False)]
