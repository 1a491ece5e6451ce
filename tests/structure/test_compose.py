"""docker-compose.yml: valid by the Compose specification's schema, and safe to stop, wait for and deploy."""

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from tests.structure.sources import ROOT

FILES = ("docker-compose.yml", "docker-compose.production.yml")
APP_SERVICES = ("migrate", "web", "worker", "beat")
SECRETS = ("DJANGO_SECRET_KEY", "POSTGRES_PASSWORD", "WEBHOOKS_MASTER_KEYS")


def _load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return loaded


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    loaded: dict[str, Any] = _load("docker-compose.yml")["services"]
    return loaded


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "tests/vectors/compose/compose-spec.json").read_text())
    return loaded


@pytest.mark.parametrize("name", FILES)
def test_valid_by_the_compose_schema(schema: dict[str, Any], name: str):
    jsonschema.Draft201909Validator(schema).validate(_load(name))


def test_the_schema_refuses_a_wrong_file(schema: dict[str, Any]):
    wrong = {"services": {"web": {"image": "x", "stop_grace_periode": "30s"}}}
    with pytest.raises(jsonschema.ValidationError, match="stop_grace_periode"):
        jsonschema.Draft201909Validator(schema).validate(wrong)


def test_services(services: dict[str, Any]):
    assert sorted(services) == ["beat", "migrate", "postgres", "redis", "web", "worker"]


def test_every_service_has_a_health_check_and_time_to_stop(services: dict[str, Any]):
    for name, service in services.items():
        assert service["healthcheck"].get("test") or name == "migrate", name
        assert service["stop_grace_period"] == "30s", name


@pytest.mark.parametrize("name", ["web", "worker", "beat"])
def test_processes_wait_for_servers_and_migrations(services: dict[str, Any], name: str):
    waits = {other: how["condition"] for other, how in services[name]["depends_on"].items()}
    assert waits == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_worker_serves_the_queue(services: dict[str, Any]):
    command = services["worker"]["command"]
    assert command[command.index("-Q") + 1] == "webhooks"


def test_production_has_no_default_secret_and_no_debugging():
    services = _load("docker-compose.production.yml")["services"]
    for name in APP_SERVICES:
        environment = services[name]["environment"]
        assert environment["DEBUG"] == "false"
        values = " ".join(environment.values())
        assert [secret for secret in SECRETS if f"${{{secret}:?" not in values] == []
    assert "${POSTGRES_PASSWORD:?" in services["postgres"]["environment"]["POSTGRES_PASSWORD"]


def test_example_names_every_required_variable():
    required = re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.production.yml").read_text())
    example = re.findall(r"^(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert sorted(set(required)) == sorted(example)


def test_image_runs_unprivileged():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "USER app" in lines
    assert lines.index("USER app") < next(n for n, line in enumerate(lines) if line.startswith("CMD"))
