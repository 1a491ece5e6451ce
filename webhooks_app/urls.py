"""What a host includes: `path("", include("webhooks_app.urls"))`."""

from .api.urls import urlpatterns

app_name = "webhooks_app"
__all__ = ["app_name", "urlpatterns"]
