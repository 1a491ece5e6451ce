"""Sealing: what is sealed opens in its own place and nowhere else."""

import base64
from itertools import permutations
from typing import Any

import pytest

from webhooks_app.core.sealing import SealingError
from webhooks_app.destinations.sealing import (
    keyring,
    open_header,
    open_secret,
    seal_header,
    seal_secret,
    sealing_keyring,
)
from webhooks_app.exceptions import ConfigurationError

ONE, OTHER = "whk_" + "0" * 26, "whk_" + "1" * 26


@pytest.fixture
def keys(settings: Any):
    """Set the master keys by a number each."""

    def use(*numbers: int) -> None:
        keys = [base64.b64encode(bytes([number]) * 32).decode() for number in numbers]
        settings.WEBHOOKS = {**settings.WEBHOOKS, "MASTER_KEYS": keys}

    return use


def test_a_secret_opens_for_its_endpoint_and_version():
    assert open_secret(ONE, 1, seal_secret(ONE, 1, "whsec_x")) == "whsec_x"


def test_a_header_opens_for_its_endpoint_and_name_in_any_case():
    assert open_header(ONE, "x-key", seal_header(ONE, "X-Key", "välue")) == "välue"


def test_two_seals_of_one_value_differ():
    assert seal_secret(ONE, 1, "same") != seal_secret(ONE, 1, "same")


OPENERS = {
    "version 1": lambda text: open_secret(ONE, 1, text),
    "version 11": lambda text: open_secret(ONE, 11, text),
    "other endpoint": lambda text: open_secret(OTHER, 1, text),
    "header": lambda text: open_header(ONE, "1", text),
    "other header": lambda text: open_header(ONE, "2", text),
}
SEALED = {
    "version 1": lambda: seal_secret(ONE, 1, "x"),
    "version 11": lambda: seal_secret(ONE, 11, "x"),
    "other endpoint": lambda: seal_secret(OTHER, 1, "x"),
    "header": lambda: seal_header(ONE, "1", "x"),
    "other header": lambda: seal_header(ONE, "2", "x"),
}


@pytest.mark.parametrize(("made_for", "opened_as"), list(permutations(OPENERS, 2)))
def test_a_ciphertext_moved_elsewhere_does_not_open(made_for, opened_as):
    with pytest.raises(SealingError) as caught:
        OPENERS[opened_as](SEALED[made_for]())
    assert caught.value.code == "unreadable"


def test_the_first_key_seals_and_all_open(keys):
    keys(1)
    old = seal_secret(ONE, 1, "x")
    keys(2, 1)
    assert open_secret(ONE, 1, old) == "x"
    assert f".{keyring().kid}." not in old
    assert f".{keyring().kid}." in seal_secret(ONE, 1, "x")
    keys(2)
    with pytest.raises(SealingError) as caught:
        open_secret(ONE, 1, old)
    assert caught.value.code == "unknown_key"


def test_without_a_key_sealing_says_what_to_do(keys):
    keys()
    for sealing in (lambda: seal_secret(ONE, 1, "x"), lambda: seal_header(ONE, "a", "x"), sealing_keyring):
        with pytest.raises(ConfigurationError, match="MASTER_KEYS"):
            sealing()
    with pytest.raises(SealingError):
        keyring()
