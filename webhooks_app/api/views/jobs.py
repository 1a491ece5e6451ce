"""/v1/jobs: recovery in the background."""

from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_MANAGE, WEBHOOKS_READ
from ...actions.jobs import cancel_job
from ...actions.scope import get_job, visible_jobs
from ...models import Job
from ..operations import Operation
from ..serializers import job as shapes
from ..serializers.webhook import Nothing
from .base import ApiView
from .lists import ListView

_TAG = "Jobs"


class Jobs(ListView[Job]):
    """The caller's jobs."""

    operations = {
        "GET": Operation(
            id="listJobs",
            tag=_TAG,
            summary="List jobs, newest first",
            permission=WEBHOOKS_READ,
            staff=("view_job",),
            query=shapes.JobQuery,
            answer=shapes.JobPage,
            errors=("cursor_expired",),
        )
    }
    exact = {"kind": "kind", "state": "state", "webhook_id": "endpoint__public_id"}

    def get(self, request: Request) -> Response:
        """List."""
        return self.page(visible_jobs(self.actor).select_related("endpoint"))


class OneJob(ApiView):
    """One job."""

    operations = {
        "GET": Operation(
            id="getJob",
            tag=_TAG,
            summary="Read a job and its progress",
            permission=WEBHOOKS_READ,
            staff=("view_job",),
            answer=shapes.Job,
            errors=("job_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        return self.answer(get_job(self.actor, id))


class CancelJob(ApiView):
    """No more of it."""

    operations = {
        "POST": Operation(
            id="cancelJob",
            tag=_TAG,
            summary="Cancel a job",
            description="What it has queued already stays queued. A running job ends within a moment.",
            permission=WEBHOOKS_MANAGE,
            staff=("change_endpoint", "view_job"),
            body=Nothing,
            answer=shapes.Job,
            errors=("job_not_found", "job_ended"),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Cancel."""
        job = get_job(self.actor, id)
        self.read()
        return self.answer(cancel_job(self.actor, job))
