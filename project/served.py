"""The WSGI entry point of the image, with static files: `gunicorn project.served`."""

from pathlib import Path

from django.apps import apps
from django.conf import settings
from whitenoise import WhiteNoise

from project.wsgi import application as django_application

application = WhiteNoise(django_application, max_age=3600)
for app in apps.get_app_configs():
    folder = Path(app.path) / "static"
    if folder.is_dir():
        application.add_files(str(folder), prefix=settings.STATIC_URL)
