"""The file broker: a reader never meets half a message."""

import os
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from project import file_broker


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Any]:
    """A channel over a folder of its own."""
    (tmp_path / "messages").mkdir()
    (tmp_path / "control").mkdir()
    options = {
        "data_folder_in": str(tmp_path / "messages"),
        "data_folder_out": str(tmp_path / "messages"),
        "control_folder": str(tmp_path / "control"),
    }
    with Connection(
        "filesystem://", transport=file_broker.Transport, transport_options=options
    ) as connection:
        yield connection.channel()


def test_messages_come_out_in_order_once_and_by_queue(channel: Any) -> None:
    for number in range(3):
        channel._put("webhooks", {"number": number})
    channel._put("webhooks.slow", {"number": 9})
    assert [channel._get("webhooks")["number"] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(Empty):
        channel._get("webhooks")
    assert channel._get("webhooks.slow") == {"number": 9}


def test_a_message_is_not_there_before_it_is_whole(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = os.replace, []

    def replace(hidden: Path, final: Path) -> None:
        with pytest.raises(Empty):
            channel._get("webhooks")
        seen.append(hidden.read_text())
        real(hidden, final)

    monkeypatch.setattr(os, "replace", replace)
    channel._put("webhooks", {"a": "ü"})
    assert len(seen) == 1
    assert channel._get("webhooks") == {"a": "ü"}


def test_an_exchange_that_is_being_made_has_no_bindings_yet(channel: Any, tmp_path: Path) -> None:
    (tmp_path / "control" / "webhooks.exchange").touch()
    assert channel.get_table("webhooks") == []


def test_the_name_stands_for_it_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_broker, "TRANSPORT_ALIASES", {})
    file_broker.install()
    assert file_broker.TRANSPORT_ALIASES == {"filesystem": "project.file_broker:Transport"}
