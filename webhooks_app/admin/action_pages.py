"""Pages around actions, in the look of Django's own."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.admin import helpers
from django.contrib.admin.utils import flatten_fieldsets
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers

from .action_form import ActionForm
from .base import WebhooksAdmin

# The field of a form that was confirmed.
CONFIRMED = "confirmed"
# Pairs of title and options; the stubs of Django disagree with each other about them.
Fieldsets = Any


def change_form(
    page: WebhooksAdmin[Any],
    request: HttpRequest,
    form: ActionForm[Any],
    fieldsets: Fieldsets,
    *,
    editable: bool,
) -> HttpResponse:
    """Render a form as Django's change form; all of it read-only unless `editable`."""
    obj = form.instance if form.instance.pk else None
    readonly = page.get_readonly_fields(request, obj) if editable else flatten_fieldsets(fieldsets)
    admin_form = helpers.AdminForm(form, fieldsets, {}, readonly, model_admin=page)
    verb = ("Change" if editable else "View") if obj else "Add"
    context = {
        **page.admin_site.each_context(request),
        "title": f"{verb} {page.opts.verbose_name}",
        "subtitle": str(obj) if obj else None,
        "adminform": admin_form,
        "object_id": str(obj.pk) if obj else None,
        "original": obj,
        "is_popup": False,
        "to_field": None,
        "media": page.media + admin_form.media,
        "inline_admin_formsets": [],
        "errors": helpers.AdminErrorList(form, []),
        "preserved_filters": page.get_preserved_filters(request),
        "show_save_and_add_another": False,
        "show_save_and_continue": False,
    }
    return page.render_change_form(request, context, add=obj is None, change=obj is not None, obj=obj)


def plain_form(page: WebhooksAdmin[Any], request: HttpRequest, form: Any, **words: Any) -> HttpResponse:
    """Render a small form: what will happen, what it needs, and a button.

    Args:
        words: `obj` that it is about (None: several), `title`, `text`, `button`, and `back`, a URL.
    """
    return _page(page, request, form, template="plain_form", **words)


def confirm(page: WebhooksAdmin[Any], request: HttpRequest, form: Any, **words: Any) -> HttpResponse:
    """Render what a valid form has chosen, once more, with a button that sends it with CONFIRMED.

    `words` are those of `plain_form`; with an empty `button` there is nothing to confirm.
    """
    chosen = [(form[name].label, _told(value)) for name, value in form.cleaned_data.items() if value]
    return _page(page, request, form, template="confirm", chosen=chosen, confirmed=CONFIRMED, **words)


def _told(value: object) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if isinstance(value, datetime) else str(value)


def _page(
    page: WebhooksAdmin[Any], request: HttpRequest, form: Any, *, template: str, obj: Any, **more: Any
) -> HttpResponse:
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "original": obj,
        "subtitle": None if obj is None else str(obj),
        "form": form,
        "media": page.media,
        **more,
    }
    return TemplateResponse(request, f"admin/webhooks_app/{template}.html", context)


def shown_once(
    page: WebhooksAdmin[Any], request: HttpRequest, *, obj: Any, what: str, secret: str
) -> HttpResponse:
    """Render a secret in the answer to the request that made it; no cookie, redirect or cache holds it."""
    context = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "original": obj,
        "title": f"New {what}",
        "subtitle": str(obj),
        "what": what,
        "secret": secret,
        "media": page.media,
    }
    response = TemplateResponse(request, "admin/webhooks_app/shown_once.html", context)
    add_never_cache_headers(response)
    response["Referrer-Policy"] = "no-referrer"
    return response
