"""What an endpoint lacks, page by page, with the way to recover it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.http import urlencode

from ..actions.missed import Missed, MissedPage, missed
from ..exceptions import ActionError
from ..models import Endpoint
from . import shown
from .action_form import refuse
from .base import staff_actor
from .recovery_forms import MissedForm

if TYPE_CHECKING:
    from .endpoints import EndpointAdmin

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class _Row:
    """One missed event as it is shown."""

    event: str
    type: str
    tenant: str
    occurred: str
    fate: str
    error: str

    @classmethod
    def of(cls, each: Missed) -> "_Row":
        event, delivery = each.event, each.delivery
        return cls(
            event=shown.link("event", event.pk, event.public_id),
            type=event.type,
            tenant=shown.NOTHING if event.tenant_id is None else shown.visible(event.tenant_id),
            occurred=f"{event.occurred_at:%Y-%m-%d %H:%M:%S}",
            fate="never had it" if delivery is None else shown.link("delivery", delivery.pk, delivery.state),
            error=(delivery and delivery.last_error) or shown.NOTHING,
        )


def missed_page(page: "EndpointAdmin", request: HttpRequest, endpoint: Endpoint) -> HttpResponse:
    """List them, the newest first; the caller has checked the permission. Changes nothing."""
    form = MissedForm(request.GET)
    found = MissedPage((), None)
    if form.is_valid():
        window = form.cleaned_data
        cursor = request.GET.get("cursor") or None
        try:
            found = missed(staff_actor(request), endpoint, **window, cursor=cursor, limit=PAGE_SIZE)
        except ActionError as error:
            refuse(form, error)
    context = _context(page, request, endpoint, form=form, found=found)
    return TemplateResponse(request, "admin/webhooks_app/missed.html", context)


def _context(
    page: "EndpointAdmin", request: HttpRequest, endpoint: Endpoint, *, form: MissedForm, found: MissedPage
) -> dict[str, Any]:
    given = {name: request.GET[name] for name in form.fields if request.GET.get(name)}
    following = found.cursor and urlencode({**given, "cursor": found.cursor})
    return {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "original": endpoint,
        "title": "Missed events",
        "subtitle": str(endpoint),
        "form": form,
        "rows": [_Row.of(each) for each in found.rows],
        "following": following,
        "is_first": "cursor" not in request.GET,
        "window": urlencode(given),
        "may_recover": page.has_change_permission(request, endpoint),
        "media": page.media,
    }
