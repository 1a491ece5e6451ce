"""URLs of the test suite: the app under a prefix, so that no path is hard-coded, and the admin."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("webhooks/", include("webhooks_app.urls")),
]
