"""What staff do to one endpoint: a page that asks, then an action, then what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html

from ..actions.actor import Actor
from ..actions.cancel import cancel_open
from ..actions.recover import recover, recoverable
from ..actions.replay import replay
from ..actions.rotate_secret import rotate_secret
from ..actions.test_send import test_send
from ..exceptions import ActionError
from ..models import Attempt, Endpoint
from . import action_pages, shown
from .action_form import refuse
from .base import staff_actor
from .endpoint_forms import ConfirmForm, RotateForm
from .recovery_forms import RecoverForm, ReplayForm

if TYPE_CHECKING:
    from .endpoints import EndpointAdmin

Answer = tuple[str, str]  # a message, and a secret to show once ("" for none)


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing to do: the page that asks for it, and how it is done.

    With `count` it is done only after how much it is about was shown, and confirmed.
    """

    title: str
    text: str
    button: str
    form: type[forms.Form]
    act: Callable[[Actor, Endpoint, dict[str, Any]], Answer]
    count: Callable[..., int] | None = None


def outcome(attempt: Attempt) -> str:
    """Say in one line what came of a test."""
    answer = f"answered {attempt.http_status}" if attempt.http_status else "no answer"
    error = f" ({attempt.error})" if attempt.error else ""
    return f"{attempt.status}: {answer} in {attempt.duration_ms} ms{error}"


def _test(actor: Actor, endpoint: Endpoint, values: dict[str, Any]) -> Answer:
    return f"Test {outcome(test_send(actor, endpoint))}.", ""


def _rotate(actor: Actor, endpoint: Endpoint, values: dict[str, Any]) -> Answer:
    rotated = rotate_secret(actor, endpoint, overlap_hours=values["overlap_hours"])
    return f"Secret {rotated.version} signs from now on.", rotated.secret


def _replay(actor: Actor, endpoint: Endpoint, values: dict[str, Any]) -> Answer:
    window = {name: values[name] or None for name in ("since", "until", "status")}
    return f"Queued: {replay(actor, endpoint, **window)}.", ""


def _recover(actor: Actor, endpoint: Endpoint, values: dict[str, Any]) -> Answer:
    job = recover(actor, endpoint, since=values["since"], until=values["until"])
    link = shown.link("job", job.pk, job.public_id)
    return format_html("{} to queue; see job {}.", f"{job.total:,}", link), ""


def _cancel(actor: Actor, endpoint: Endpoint, values: dict[str, Any]) -> Answer:
    done = cancel_open(actor, endpoint)
    return f"Cancelled: {done.count}.{'' if done.finished else ' More are open; do it again.'}", ""


VERBS: Mapping[str, Verb] = {
    "test": Verb(
        "Send a test",
        "One request with an event of type webhook.test is sent at once. It counts for nothing else; only an "
        "endpoint that is disabled because its URL was changed is enabled when it succeeds.",
        "Send",
        ConfirmForm,
        _test,
    ),
    "rotate-secret": Verb(
        "Rotate the secret",
        "A new secret is made and shown once. Hand it to the consumer before the present one ends.",
        "Rotate",
        RotateForm,
        _rotate,
    ),
    "replay": Verb(
        "Send again",
        "Events of the past are sent to this endpoint again, each with the same id and body.",
        "Send again",
        ReplayForm,
        _replay,
    ),
    "recover": Verb(
        "Recover",
        "Deliveries that died, and events that the endpoint may have and never had, are queued again "
        "in the background, behind its live traffic.",
        "Recover",
        RecoverForm,
        _recover,
        recoverable,
    ),
    "cancel-open": Verb(
        "Cancel open deliveries",
        "All deliveries that still wait end as cancelled, but for those that are being sent. They can be "
        "sent again later.",
        "Cancel them",
        ConfirmForm,
        _cancel,
    ),
}


def verb_page(page: "EndpointAdmin", request: HttpRequest, endpoint: Endpoint, verb: Verb) -> HttpResponse:
    """Ask (GET), or act (POST); the caller has checked the permission."""
    form = verb.form(request.POST if request.method == "POST" else None, initial=request.GET.dict())
    if form.is_valid():
        try:
            if verb.count is not None and action_pages.CONFIRMED not in request.POST:
                total = verb.count(staff_actor(request), endpoint, **form.cleaned_data)
                return _confirm(page, request, form, endpoint, verb=verb, total=total)
            message, secret = verb.act(staff_actor(request), endpoint, form.cleaned_data)
        except ActionError as error:
            refuse(form, error)
        else:
            page.log_change(request, endpoint, verb.title)
            if secret:
                return action_pages.shown_once(page, request, obj=endpoint, what="secret", secret=secret)
            messages.info(request, message)
            return redirect("admin:webhooks_app_endpoint_change", endpoint.pk)
    return action_pages.plain_form(
        page,
        request,
        form,
        obj=endpoint,
        title=verb.title,
        text=verb.text,
        button=verb.button if verb.count is None else "Count",
        back=_back(endpoint),
    )


def _confirm(
    page: "EndpointAdmin",
    request: HttpRequest,
    form: forms.Form,
    endpoint: Endpoint,
    *,
    verb: Verb,
    total: int,
) -> HttpResponse:
    return action_pages.confirm(
        page,
        request,
        form,
        obj=endpoint,
        title=verb.title,
        text=f"Selected are {total:,}." if total else "There is nothing to do.",
        button=verb.button if total else "",
        back=_back(endpoint),
    )


def _back(endpoint: Endpoint) -> str:
    return reverse("admin:webhooks_app_endpoint_change", args=[endpoint.pk])
