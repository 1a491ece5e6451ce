"""URLs of the test suite: the app as a host mounts it, and the admin."""

from django.contrib import admin
from django.urls import include, path
from django.utils.module_loading import module_has_submodule

import webhooks_app

urlpatterns = [path("admin/", admin.site.urls)]
if module_has_submodule(webhooks_app, "urls"):
    urlpatterns.append(path("", include("webhooks_app.urls")))
