"""One more kind of job; the tables stay as they are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("webhooks_app", "0005_dead_deliveries")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="kind",
            field=models.CharField(
                choices=[
                    ("recover", "Recover"),
                    ("bulk_retry", "Bulk Retry"),
                    ("erase", "Erase"),
                    ("hasten", "Hasten"),
                ],
                max_length=16,
            ),
        ),
    ]
