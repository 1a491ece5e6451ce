"""Rotating: the new key signs at once, the old ones end with the overlap, nothing leaks, nothing moves."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_endpoint, tenant, together
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.core.sealing import SealingError
from webhooks_app.core.secrets import parse
from webhooks_app.core.signing import SigningKey
from webhooks_app.destinations.config import load_configs
from webhooks_app.destinations.sealing import open_secret
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Endpoint, EndpointSecret

pytestmark = pytest.mark.django_db

GIVEN = "whsec_" + "QUJD" * 8


def signing(endpoint: Endpoint, *, ahead: float = 0) -> list[SigningKey]:
    """The keys that sign so many hours from now."""
    config = load_configs("default", [endpoint.pk])[endpoint.pk]
    return config.signing_keys(timezone.now() + timedelta(hours=ahead))


def test_both_keys_sign_until_the_overlap_ends_newest_first():
    row = make_endpoint(secret=GIVEN)
    rotated = rotate_secret(tenant(), row)
    new, old = SigningKey(parse(rotated.secret)), SigningKey(parse(GIVEN))
    assert rotated.version == 2
    assert signing(row, ahead=23) == [new, old]
    assert signing(row, ahead=25) == [new]
    assert rotated.previous_expires_at == EndpointSecret.objects.get(version=1).expires_at


def test_no_overlap_leaves_exactly_one_key_whatever_was_there():
    row = make_endpoint()
    rotate_secret(tenant(), row, overlap_hours=100)
    rotated = rotate_secret(tenant(), row, overlap_hours=0)
    assert rotated.previous_expires_at is None
    assert EndpointSecret.objects.get().version == 3
    assert signing(row) == [SigningKey(parse(rotated.secret))]


def test_a_second_rotation_never_lengthens_an_overlap():
    row = make_endpoint()
    rotate_secret(tenant(), row, overlap_hours=2)
    first = EndpointSecret.objects.get(version=1).expires_at
    rotate_secret(tenant(), row, overlap_hours=100)
    assert EndpointSecret.objects.get(version=1).expires_at == first
    rotate_secret(tenant(), row, overlap_hours=1)
    assert EndpointSecret.objects.get(version=1).expires_at < first


def test_expired_keys_are_destroyed():
    row = make_endpoint()
    EndpointSecret.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    rotate_secret(tenant(), row)
    assert list(EndpointSecret.objects.values_list("version", flat=True)) == [2]


def test_a_secret_may_be_brought_along():
    row = make_endpoint()
    assert rotate_secret(tenant(), row, secret=f" {GIVEN} ").secret == GIVEN


def test_too_many_keys_at_once():
    row = make_endpoint()
    for _ in range(4):
        rotate_secret(tenant(), row)
    with pytest.raises(Conflict) as caught:
        rotate_secret(tenant(), row)
    assert caught.value.code == "too_many_secrets"
    assert EndpointSecret.objects.count() == 5
    rotate_secret(tenant(), row, overlap_hours=0)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"overlap_hours": -1}, "overlap_hours"),
        ({"overlap_hours": 169}, "overlap_hours"),
        ({"overlap_hours": 1.5}, "overlap_hours"),
        ({"overlap_hours": True}, "overlap_hours"),
        ({"secret": ""}, "secret"),
        ({"secret": "whsec_S3CRET"}, "secret"),
    ],
)
def test_refused_values(values, path):
    with pytest.raises(InvalidRequest) as caught:
        rotate_secret(tenant(), make_endpoint(), **values)
    assert [each for each, _ in caught.value.errors] == [path]
    assert "S3CRET" not in str(caught.value)


def test_the_secret_is_in_no_repr_audit_or_log(caplog):
    caplog.set_level("DEBUG")
    rotated = rotate_secret(tenant(), make_endpoint())
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.details) == ("webhook.secret_rotated", {"version": 2, "overlap_hours": 24})
    for text in (repr(rotated), str(entry.details), caplog.text, str(EndpointSecret.objects.values())):
        assert rotated.secret not in text


def test_a_ciphertext_opens_in_its_own_row_only():
    one, other = make_endpoint(), make_endpoint()
    sealed = one.secrets.get().sealed
    for public_id, version in ((other.public_id, 1), (one.public_id, 2)):
        with pytest.raises(SealingError):
            open_secret(public_id, version, sealed)
    other.secrets.update(sealed=sealed)
    assert load_configs("default", [other.pk])[other.pk].fault == "secret_unavailable"


def test_rotation_heals_a_secret_that_does_not_open():
    row = make_endpoint()
    EndpointSecret.objects.update(sealed="whs1.broken")
    rotate_secret(tenant(), row, overlap_hours=0)
    assert len(signing(row)) == 1


def test_the_revision_rises():
    row = make_endpoint()
    rotate_secret(tenant(), row)
    assert Endpoint.objects.get().revision == row.revision + 1


def test_foreign_and_deleted_endpoints_do_not_exist():
    row = make_endpoint()
    with pytest.raises(NotFound):
        rotate_secret(tenant("other"), row)
    delete_endpoint(OPERATOR, row)
    with pytest.raises(NotFound):
        rotate_secret(tenant(), row)


def test_without_the_permission_nothing_happens():
    with pytest.raises(PermissionDenied):
        rotate_secret(tenant(permissions=frozenset({"webhooks:read"})), make_endpoint())


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_two_rotations_at_once_make_two_versions():
    row = make_endpoint()
    results = together(*[lambda: rotate_secret(tenant(), row)] * 2)
    assert sorted(result.version for result in results) == [2, 3]
