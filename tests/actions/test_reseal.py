"""Resealing: every secret moves to the first key, nothing is lost, what does not open is counted."""

import base64

import pytest

from tests.actions.builders import make_endpoint, tenant
from webhooks_app.actions.reseal import Resealed, reseal
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.core.sealing import Keyring
from webhooks_app.destinations.config import load_configs
from webhooks_app.exceptions import ConfigurationError
from webhooks_app.models import AuditEntry, Endpoint, EndpointSecret

pytestmark = pytest.mark.django_db

OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
HEADERS = [{"name": "X-Key", "value": "s3cr3t", "secret": True}, {"name": "X-Team", "value": "blue"}]


@pytest.fixture
def endpoint(network) -> Endpoint:
    """An endpoint with two secrets and a secret header, all under the old key."""
    network(MASTER_KEYS=[OLD])
    row = make_endpoint(headers=HEADERS)
    rotate_secret(tenant(), row)
    return row


def config(endpoint: Endpoint):
    return load_configs("default", [endpoint.pk])[endpoint.pk]


def test_all_values_move_and_the_old_key_can_go(endpoint, network):
    before = config(endpoint)
    network(MASTER_KEYS=[NEW, OLD])
    assert reseal() == Resealed(done=3, remaining=0, failed=0)
    network(MASTER_KEYS=[NEW])
    after = config(endpoint)
    assert after.fault == ""
    assert [key.signing for key in after.keys] == [key.signing for key in before.keys]
    assert after.headers == before.headers == (("X-Key", "s3cr3t"), ("X-Team", "blue"))
    assert after.revision > before.revision


def test_a_second_run_has_nothing_to_do(endpoint, network):
    network(MASTER_KEYS=[NEW, OLD])
    reseal()
    sealed = list(EndpointSecret.objects.order_by("id").values_list("sealed", flat=True))
    entries = AuditEntry.objects.count()
    assert reseal() == Resealed(done=0, remaining=0, failed=0)
    assert list(EndpointSecret.objects.order_by("id").values_list("sealed", flat=True)) == sealed
    assert AuditEntry.objects.count() == entries


def test_a_limit_leaves_the_rest_for_the_next_run(endpoint, network):
    network(MASTER_KEYS=[NEW, OLD])
    assert reseal(limit=2) == Resealed(done=2, remaining=1, failed=0)
    assert config(endpoint).fault == ""
    assert reseal(limit=2) == Resealed(done=1, remaining=0, failed=0)


def test_what_does_not_open_is_counted_and_left_as_it_is(endpoint, network):
    network(MASTER_KEYS=[NEW, OLD])
    foreign = EndpointSecret.objects.get(version=2).sealed
    EndpointSecret.objects.filter(version=1).update(sealed=foreign)
    assert reseal() == Resealed(done=2, remaining=1, failed=1)
    assert EndpointSecret.objects.get(version=1).sealed == foreign
    network(MASTER_KEYS=[NEW])
    assert reseal() == Resealed(done=0, remaining=1, failed=1)


def test_a_value_that_changed_meanwhile_is_not_overwritten(endpoint, network, monkeypatch):
    network(MASTER_KEYS=[NEW, OLD])
    real = Keyring.open

    def open_while_somebody_writes(self, text, aad):
        EndpointSecret.objects.filter(sealed=text).update(sealed=text + "A")
        return real(self, text, aad)

    monkeypatch.setattr(Keyring, "open", open_while_somebody_writes)
    assert reseal().done == 1
    monkeypatch.undo()
    assert all(sealed.endswith("A") for sealed in EndpointSecret.objects.values_list("sealed", flat=True))


def test_it_is_audited_without_a_secret(endpoint, network):
    network(MASTER_KEYS=[NEW, OLD])
    reseal()
    entry = AuditEntry.objects.latest("id")
    assert entry.action == "secrets.resealed"
    assert set(entry.details) == {"done", "failed", "kid"}


def test_without_a_master_key_it_says_so(endpoint, network):
    network(MASTER_KEYS=[])
    with pytest.raises(ConfigurationError, match="MASTER_KEYS"):
        reseal()
