"""Columns and tables of policies, gates and recovery: nullable or with a constant default, so no rewrite."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("webhooks_app", "0002_storage"),
    ]

    operations = [
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "caller",
                    models.CharField(
                        help_text="SHA-256 over the caller's kind, id and scope.", max_length=64
                    ),
                ),
                ("key", models.CharField(max_length=255)),
                ("method", models.CharField(max_length=8)),
                ("path", models.CharField(max_length=512)),
                (
                    "fingerprint",
                    models.CharField(help_text="SHA-256 over method, path and body.", max_length=64),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("in_progress", "In Progress"), ("completed", "Completed")],
                        default="in_progress",
                        max_length=12,
                    ),
                ),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("headers", models.JSONField(default=dict)),
                ("body", models.BinaryField(help_text="Without one-time secrets.", null=True)),
                ("started_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("public_id", models.CharField(editable=False, max_length=30, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("recover", "Recover"), ("bulk_retry", "Bulk Retry"), ("erase", "Erase")],
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("tenant_id", models.CharField(max_length=128, null=True)),
                ("partner_id", models.CharField(max_length=128, null=True)),
                ("environment", models.CharField(max_length=8, null=True)),
                ("params", models.JSONField(default=dict)),
                ("actor_kind", models.CharField(max_length=32)),
                ("actor_id", models.CharField(max_length=150)),
                ("request_id", models.CharField(default="", max_length=64)),
                (
                    "total",
                    models.PositiveIntegerField(help_text="Counted before the first is queued.", null=True),
                ),
                ("done", models.PositiveIntegerField(default=0)),
                ("skipped", models.PositiveIntegerField(default=0)),
                ("cursor", models.BigIntegerField(default=0)),
                ("error", models.CharField(default="", max_length=200)),
                ("claimed_until", models.DateTimeField(help_text="A worker is at it until then.", null=True)),
                ("cancel_requested_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="RateBucket",
            fields=[
                ("key", models.CharField(max_length=300, primary_key=True, serialize=False)),
                ("tokens", models.FloatField()),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="endpoint",
            name="ordering",
            field=models.CharField(
                choices=[("none", "None"), ("fifo", "Fifo"), ("subject", "Subject")],
                db_default="none",
                default="none",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="endpoint",
            name="rate_limit",
            field=models.JSONField(
                blank=True, help_text='{"per_second": n, "burst": n}; null = none.', null=True
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="breaker",
            field=models.CharField(
                choices=[("closed", "Closed"), ("open", "Open"), ("half_open", "Half Open")],
                db_default="closed",
                default="closed",
                max_length=9,
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="breaker_at",
            field=models.DateTimeField(help_text="Its last change.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="breaker_error",
            field=models.CharField(db_default="", default="", help_text="Why it opened.", max_length=32),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="breaker_successes",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="In a row, in the breaker's present state."
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="dead_lettered",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="Deliveries that ended otherwise than delivered."
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="delivered",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="failed",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="Failed attempts that ended theirs."
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="failing_from",
            field=models.DateTimeField(help_text="Where the count towards disabling starts.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="health_warning",
            field=models.CharField(db_default="", default="", help_text="An error code.", max_length=32),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="last_error",
            field=models.CharField(db_default="", default="", max_length=32),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="latency_ms",
            field=models.PositiveIntegerField(help_text="Smoothed time of the answers.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="owner",
            field=models.CharField(
                db_default="",
                default="",
                help_text="The node that claimed last, if it is ordered.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="owner_until",
            field=models.DateTimeField(help_text="End of that claim.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="probe_at",
            field=models.DateTimeField(help_text="No probe before.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="probe_token",
            field=models.UUIDField(help_text="The lease whose outcome moves the breaker.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="probe_until",
            field=models.DateTimeField(help_text="A probe that has not reported by then is lost.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="retried",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="Failed attempts that are repeated."
            ),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="tokens",
            field=models.FloatField(help_text="Of the rate limit; null = a full burst.", null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="tokens_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="endpointstate",
            name="warnings",
            field=models.PositiveSmallIntegerField(
                db_default=0, default=0, help_text="Warnings given about the present run of failures."
            ),
        ),
        migrations.AlterField(
            model_name="delivery",
            name="priority",
            field=models.SmallIntegerField(
                choices=[(0, "Live"), (1, "Retry"), (2, "Bulk"), (3, "Ordered")], default=0
            ),
        ),
        migrations.AlterField(
            model_name="endpointstate",
            name="disabled_reason",
            field=models.CharField(
                choices=[
                    ("manual", "Manual"),
                    ("failing", "Failing"),
                    ("gone", "Gone"),
                    ("consumer", "Consumer"),
                    ("url_changed", "Url Changed"),
                ],
                max_length=16,
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="idempotencyrecord",
            index=models.Index(fields=["expires_at"], name="webhooks_idempotency_expiry"),
        ),
        migrations.AddConstraint(
            model_name="idempotencyrecord",
            constraint=models.UniqueConstraint(fields=("caller", "key"), name="webhooks_idempotency_once"),
        ),
        migrations.AddField(
            model_name="job",
            name="endpoint",
            field=models.ForeignKey(
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="jobs",
                to="webhooks_app.endpoint",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state__in", ["queued", "running"])),
                fields=["id"],
                name="webhooks_job_open",
            ),
        ),
        # The largest tables come last: their locks are held to the end.
        migrations.AddField(
            model_name="event",
            name="replay_of",
            field=models.BigIntegerField(
                help_text="Key of the event that this one repeats at one endpoint, with its own id.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="started_at",
            field=models.DateTimeField(
                help_text="Start of its schedule: the event's recording, or a replay. Null = created_at.",
                null=True,
            ),
        ),
    ]
