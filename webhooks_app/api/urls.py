"""Paths of the REST API, version 1. The last one answers for all that are no paths; keep it last."""

from django.urls import path, re_path
from django.views.generic import RedirectView

from .views import (
    attempts,
    audit,
    deliveries,
    docs,
    event_types,
    events,
    jobs,
    match,
    recovery,
    webhook_health,
    webhook_verbs,
    webhooks,
)
from .views.base import RouteNotFound

urlpatterns = [
    path("v1/events", events.Events.as_view(), name="events"),
    # Before the ids, which these are none of.
    path("v1/events/batch", events.EventBatch.as_view(), name="events-batch"),
    path("v1/events/<str:id>", events.OneEvent.as_view(), name="event"),
    path("v1/webhooks", webhooks.Webhooks.as_view(), name="webhooks"),
    path("v1/event-types", event_types.Catalogue.as_view(), name="event-types"),
    path("v1/webhooks/match", match.MatchView.as_view(), name="webhooks-match"),
    path("v1/webhooks/health", webhook_health.AllHealthView.as_view(), name="webhooks-health"),
    path("v1/webhooks/<str:id>", webhooks.OneWebhook.as_view(), name="webhook"),
    path(
        "v1/webhooks/<str:id>/rotate-secret", webhook_verbs.RotateSecretView.as_view(), name="webhook-rotate"
    ),
    path("v1/webhooks/<str:id>/test", webhook_verbs.TestView.as_view(), name="webhook-test"),
    path("v1/webhooks/<str:id>/replay", webhook_verbs.ReplayView.as_view(), name="webhook-replay"),
    path("v1/webhooks/<str:id>/recover", recovery.RecoverView.as_view(), name="webhook-recover"),
    path("v1/webhooks/<str:id>/missed", recovery.MissedView.as_view(), name="webhook-missed"),
    path("v1/webhooks/<str:id>/pause", webhook_verbs.PauseView.as_view(), name="webhook-pause"),
    path("v1/webhooks/<str:id>/resume", webhook_verbs.ResumeView.as_view(), name="webhook-resume"),
    path("v1/webhooks/<str:id>/status", webhook_health.StatusView.as_view(), name="webhook-status"),
    path("v1/webhooks/<str:id>/health", webhook_health.HealthView.as_view(), name="webhook-health"),
    path(
        "v1/webhooks/<str:id>/deliveries", deliveries.WebhookDeliveries.as_view(), name="webhook-deliveries"
    ),
    path("v1/webhooks/<str:id>/attempts", attempts.WebhookAttempts.as_view(), name="webhook-attempts"),
    path("v1/deliveries", deliveries.Deliveries.as_view(), name="deliveries"),
    # Before the ids, which it is none of.
    path("v1/deliveries/bulk-retry", recovery.BulkRetryView.as_view(), name="deliveries-retry"),
    path("v1/deliveries/<str:id>", deliveries.OneDelivery.as_view(), name="delivery"),
    path("v1/deliveries/<str:id>/resend", recovery.ResendView.as_view(), name="delivery-resend"),
    path("v1/deliveries/<str:id>/cancel", recovery.CancelView.as_view(), name="delivery-cancel"),
    path("v1/attempts/<str:id>", attempts.OneAttempt.as_view(), name="attempt"),
    path("v1/jobs", jobs.Jobs.as_view(), name="jobs"),
    path("v1/jobs/<str:id>", jobs.OneJob.as_view(), name="job"),
    path("v1/jobs/<str:id>/cancel", jobs.CancelJob.as_view(), name="job-cancel"),
    path("v1/audit", audit.Audit.as_view(), name="audit"),
    path("v1/openapi.json", docs.OpenApi.as_view(), name="openapi"),
    path("v1/docs", RedirectView.as_view(pattern_name="webhooks_app:docs")),
    path("v1/docs/", docs.Docs.as_view(), name="docs"),
    re_path(r"^v1(?:/.*)?$", RouteNotFound.as_view(), name="route-not-found"),
]
