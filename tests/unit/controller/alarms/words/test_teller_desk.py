"""The desk follows who is to be told, and what cannot be read now changes nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from kvedge.controller.alarms.alarm_board import AlarmBoard
from kvedge.controller.alarms.words.receiver_settings import ReceiverError
from kvedge.controller.alarms.words.teller_desk import TellerDesk, WordPlaces, read_receivers_file
from kvedge.kube.errors import NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Secret
from tests.support.clocks import FakeClock

NOC = "webhooks: [{name: noc, url: 'https://noc.example/'}]\n"
OPS = "webhooks: [{name: ops, url: 'https://ops.example/'}, {name: noc, url: 'https://other.example/'}]\n"


class PlayedSecrets:
    """The one Secret, none, or no answer."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.is_away = False

    def get(self, kind: type, namespace: str, name: str) -> Secret:
        assert (namespace, name) == ("kvedge-system", "kvedge-alarm-receivers")
        if self.is_away:
            raise Unavailable(503, "", "away")
        if self.text is None:
            raise NotFound(404, "NotFound", "none")
        return Secret(data={"alarm-receivers.yaml": base64.b64encode(self.text.encode()).decode()})


@pytest.fixture
def secrets() -> PlayedSecrets:
    return PlayedSecrets()


@pytest.fixture
def desk(tmp_path: Path, secrets: PlayedSecrets) -> Iterator[TellerDesk]:
    desk = TellerDesk(cast(KubeClient, secrets), AlarmBoard(), WordPlaces(tmp_path, "edge"), FakeClock())
    yield desk
    desk.stop()


def write(directory: Path, text: str, mode: int = 0o600) -> None:
    path = directory / "alarm-receivers.yaml"
    path.write_text(text)
    path.chmod(mode)


def test_receivers_come_and_go_while_it_runs(desk: TellerDesk, secrets: PlayedSecrets, tmp_path: Path) -> None:
    desk.look()
    assert desk.names() == []
    write(tmp_path, NOC)
    secrets.text = OPS
    (tmp_path / "alert-hook").write_text("#!/bin/sh\n")
    (tmp_path / "alert-hook").chmod(0o755)
    desk.look()
    assert sorted(desk.names()) == ["hook", "noc", "ops"]
    # The host's own word counts first, and one that stays is not begun anew.
    noc = desk._tellers["noc"]
    assert noc.settings[1].url == "https://noc.example/"
    desk.look()
    assert desk._tellers["noc"] is noc
    (tmp_path / "alarm-receivers.yaml").unlink()
    (tmp_path / "alert-hook").unlink()
    desk.look()
    assert sorted(desk.names()) == ["noc", "ops"]
    assert desk._tellers["noc"].settings[1].url == "https://other.example/"
    secrets.text = None
    desk.look()
    assert desk.names() == []


def test_what_cannot_be_read_now_stays_as_it_was(desk: TellerDesk, secrets: PlayedSecrets, tmp_path: Path) -> None:
    write(tmp_path, NOC)
    secrets.text = "webhooks: [{name: ops, url: 'https://ops.example/'}]"
    desk.look()
    before = dict(desk._tellers)
    secrets.is_away = True
    write(tmp_path, "webhooks: [")
    desk.look()
    assert desk._tellers == before
    assert desk.failure() is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    write(tmp_path, NOC, mode)
    with pytest.raises(ReceiverError, match="chmod 600"):
        read_receivers_file(tmp_path / "alarm-receivers.yaml")


def test_a_directory_and_nothing_are_no_receivers(tmp_path: Path) -> None:
    assert read_receivers_file(tmp_path / "none") is None
    with pytest.raises(ReceiverError, match="no file"):
        read_receivers_file(tmp_path)


def test_a_controller_in_a_pod_reads_no_file(secrets: PlayedSecrets) -> None:
    desk = TellerDesk(cast(KubeClient, secrets), AlarmBoard(), WordPlaces(), FakeClock())
    desk.look()
    assert desk.names() == []
    desk.stop()
