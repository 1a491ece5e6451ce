"""URLs of the test suite: the app under a prefix, so that no path is hard-coded, and the admin."""

from django.contrib import admin
from django.urls import include, path
from django.utils.module_loading import module_has_submodule

import webhooks_app

urlpatterns = [path("admin/", admin.site.urls)]
if module_has_submodule(webhooks_app, "urls"):
    urlpatterns.append(path("webhooks/", include("webhooks_app.urls")))
