"""Bulk retry: the deliveries that some filters select begin anew, once they were counted and confirmed."""

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html

from ..actions import jobs
from ..actions.actor import Actor
from ..actions.bulk_retry import STATUSES, bulk_retry, retryable
from ..actions.scope import get_endpoint
from ..core.ids import parse_id
from ..core.states import DELIVERED, ERRORS, PENDING
from ..exceptions import ActionError
from . import action_pages, shown
from .action_form import refuse
from .base import staff_actor
from .recovery_forms import RetryForm

if TYPE_CHECKING:
    from .deliveries import DeliveryAdmin

TITLE = "Retry deliveries"
TEXT = (
    "The deliveries that these filters select begin their schedule anew, in the background and behind live "
    f"traffic; at most {jobs.MAX_TOTAL:,}. They are counted first. What has expired, is past its retention "
    "or is not wanted any more is skipped."
)


def retry_page(page: "DeliveryAdmin", request: HttpRequest) -> HttpResponse:
    """Ask (GET), count, or begin once that is confirmed (POST); the caller has checked the permission."""
    if request.method != "POST":
        form = RetryForm(initial=_of_list(request))
        return _ask(page, request, form)
    form = RetryForm(request.POST)
    if form.is_valid():
        try:
            if action_pages.CONFIRMED not in request.POST:
                return _confirm(page, request, form, _act(staff_actor(request), form, retryable))
            job = _act(staff_actor(request), form, bulk_retry)
        except ActionError as error:
            refuse(form, error)
        else:
            link = shown.link("job", job.pk, job.public_id)
            messages.success(request, format_html("{} to retry; see job {}.", f"{job.total:,}", link))
            return redirect("admin:webhooks_app_delivery_changelist")
    return _ask(page, request, form)


def _act(actor: Actor, form: RetryForm, verb: Any) -> Any:
    asked = {name: value or None for name, value in form.cleaned_data.items()}
    public_id = asked.pop("webhook_id")
    endpoint = None if public_id is None else get_endpoint(actor, public_id.strip())
    return verb(actor, endpoint=endpoint, **asked)


def _of_list(request: HttpRequest) -> dict[str, Any]:
    """Return the filters that the list shows; what they cannot say is told, lest too much be retried."""
    query, state = request.GET.get("q", "").strip(), request.GET.get("state", "")
    initial: dict[str, Any] = {}
    if (error := request.GET.get("last_error")) in ERRORS:
        initial["error"] = error
    if parse_id("whk", query) is not None:
        initial["webhook_id"] = query
    elif query:
        messages.warning(request, "The search for one delivery or event is no filter here: choose anew.")
    if state == PENDING:
        initial["status"] = "failed"
    elif state == DELIVERED:
        messages.warning(request, "Delivered ones are not retried; send them again from the list, or replay.")
    elif state in STATUSES:
        initial["status"] = state
    return initial


def _ask(page: "DeliveryAdmin", request: HttpRequest, form: RetryForm) -> HttpResponse:
    return action_pages.plain_form(
        page, request, form, obj=None, title=TITLE, text=TEXT, button="Count", back=_back()
    )


def _confirm(page: "DeliveryAdmin", request: HttpRequest, form: RetryForm, total: int) -> HttpResponse:
    return action_pages.confirm(
        page,
        request,
        form,
        obj=None,
        title=TITLE,
        text=_told(total),
        button="Retry them" if total else "",
        back=_back(),
    )


def _told(total: int) -> str:
    one = "1 delivery is selected." if total else "No delivery is selected."
    return f"{total:,} deliveries are selected." if total > 1 else one


def _back() -> str:
    return reverse("admin:webhooks_app_delivery_changelist")
