"""URLs of the demo project: the app at the root, the admin, and a page that says where to click."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import TemplateView

urlpatterns = [
    path("", TemplateView.as_view(template_name="shop/index.html"), name="index"),
    path("admin/", admin.site.urls),
    path("", include("webhooks_app.urls")),
]
