"""Jobs: recovery in the background, how far it is, and its end."""

from collections.abc import Sequence

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from ..actions.jobs import cancel_job
from ..exceptions import ActionError
from ..models import Job
from . import shown
from .base import MANAGE, EvidenceAdmin, staff_actor
from .change_list import recent_filter
from .of_endpoint import OfEndpoint, attach_endpoints


@admin.register(Job)
class JobAdmin(OfEndpoint, EvidenceAdmin[Job]):
    """One piece of background work each."""

    list_display = (
        "public_id",
        "kind",
        "state",
        "total",
        "done",
        "skipped",
        "created_at",
        "endpoint_id_shown",
    )
    list_filter = (recent_filter("state", Job.State.choices), recent_filter("kind", Job.Kind.choices))
    exact_fields = ("public_id",)
    search_help_text = "Id of a job."
    actions = ("cancel_selected",)
    shown_fields = (
        "public_id",
        "kind",
        "state",
        "endpoint_link",
        "tenant_id",
        "partner_id",
        "environment",
        "params_shown",
        "total",
        "done",
        "skipped",
        "error",
        "actor_kind",
        "actor_id",
        "request_id",
        "created_at",
        "started_at",
        "claimed_until",
        "cancel_requested_at",
        "finished_at",
    )

    def fetch_neighbours(self, rows: Sequence[Job]) -> None:
        """Attach endpoints; one query a page."""
        attach_endpoints(rows)

    @admin.display(description="asked for")
    def params_shown(self, job: Job) -> str:
        """Return what the worker goes by, as JSON."""
        return shown.pre_json(job.params)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Whoever may change endpoints may end their jobs."""
        return request.user.has_perm(MANAGE)

    @admin.action(description="Cancel", permissions=["manage"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """End the selected jobs."""
        for job in queryset.order_by("pk"):
            try:
                cancel_job(staff_actor(request), job)
            except ActionError as error:
                messages.error(request, f"Job {job.public_id}: {error.told}")
            else:
                messages.success(request, f"Job {job.public_id} is cancelled.")
