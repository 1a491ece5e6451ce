"""`webhooks_reseal`: progress on stderr, the sum on stdout, exit codes for what remains."""

import base64

import pytest

from tests.actions.builders import make_endpoint
from tests.management.calling import run
from webhooks_app.models import EndpointSecret

pytestmark = pytest.mark.django_db

OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


@pytest.fixture
def two_keys(network):
    """Three secrets under the old key; the new one comes first now."""
    network(MASTER_KEYS=[OLD])
    for _ in range(3):
        make_endpoint()
    network(MASTER_KEYS=[NEW, OLD])


def test_all_at_once(two_keys):
    ran = run("webhooks_reseal")
    assert (ran.code, ran.out) == (0, "resealed: 3, remaining: 0, do not open: 0\n")


def test_progress_after_each_batch(two_keys):
    ran = run("webhooks_reseal", "--batch", "2")
    assert ran.err.splitlines() == ["2 resealed, 1 remain", "3 resealed, 0 remain"]
    assert ran.out == "resealed: 3, remaining: 0, do not open: 0\n"


def test_a_limit_leaves_the_rest_and_says_so(two_keys):
    ran = run("webhooks_reseal", "--limit", "2", "--batch", "1")
    assert (ran.code, ran.out) == (3, "resealed: 2, remaining: 1, do not open: 0\n")
    assert run("webhooks_reseal").code == 0


def test_what_does_not_open_is_a_failure_and_the_rest_is_done(two_keys):
    EndpointSecret.objects.filter(pk=EndpointSecret.objects.earliest("pk").pk).update(sealed="whs1.broken")
    ran = run("webhooks_reseal", "--batch", "1")
    assert (ran.code, ran.out) == (1, "resealed: 2, remaining: 1, do not open: 1\n")


def test_nothing_to_do():
    assert run("webhooks_reseal").out == "resealed: 0, remaining: 0, do not open: 0\n"


def test_without_keys_and_with_bad_arguments(network):
    assert run("webhooks_reseal", "--batch", "0").code == 1
    network(MASTER_KEYS=[])
    assert "MASTER_KEYS" in run("webhooks_reseal", skip_checks=True).fault
