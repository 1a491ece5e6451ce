"""Jobs: recovery in the background."""

from rest_framework import serializers

from ...actions.endpoint_fields import MAX_ID
from ...models import Job as JobRow
from ..strict import Choice, Moment, Text
from .page import Page, PageQuery


class JobQuery(PageQuery):
    """Filters of the list of jobs."""

    kind = Choice(choices=JobRow.Kind.values, required=False, help_text="Only of this kind.")
    state = Choice(choices=JobRow.State.values, required=False, help_text="Only in this state.")
    webhook_id = Text(max_length=MAX_ID, required=False, help_text="Only those of this webhook.")


class Job(serializers.Serializer):
    """Work that goes on after the answer."""

    id = serializers.CharField(source="public_id")
    kind = serializers.ChoiceField(choices=JobRow.Kind.values)
    state = serializers.ChoiceField(choices=JobRow.State.values)
    webhook_id = serializers.SerializerMethodField(
        help_text="Null for a job of several webhooks, or of none."
    )
    total = serializers.IntegerField(
        allow_null=True,
        help_text="Counted when the job was made; null = a job that does not count, until it ends.",
    )
    done = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="Were no longer to be done when their turn came.")
    created_at = Moment()
    started_at = Moment(allow_null=True)
    finished_at = Moment(allow_null=True)
    error = serializers.SerializerMethodField(help_text="Why it failed; null = it did not.")

    def get_webhook_id(self, job: JobRow) -> str | None:
        """Return the webhook's id; its row may be gone."""
        return job.endpoint.public_id if job.endpoint_id is not None and job.endpoint is not None else None

    def get_error(self, job: JobRow) -> str | None:
        """Return the message."""
        return job.error or None


class JobPage(Page):
    """Jobs, newest first."""

    data = Job(many=True)
