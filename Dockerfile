# The demo project as one image: web, worker and beat differ by their command only.
FROM python:3.13-slim
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY pyproject.toml README.md LICENSE requirements.txt constraints.txt ./
COPY webhooks_app webhooks_app
RUN pip install --no-cache-dir --disable-pip-version-check --root-user-action ignore -r requirements.txt
COPY manage.py ./
COPY project project
# data/ holds what development makes for itself; production gets everything from the environment.
RUN useradd --system --uid 10001 --no-create-home app && mkdir data && chown app data
USER app
EXPOSE 8000
CMD ["gunicorn", "project.served", "--bind=0.0.0.0:8000", "--workers=2", "--threads=8", "--no-control-socket"]
