"""When an agent is told which keys and passwords, and what is said of it."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.agent import credential_keeper
from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.credential_keeper import OFFLINE, CredentialKeeper
from kvedge.launcher.agent.credential_plan import MARK
from kvedge.launcher.launcher_errors import BadRequest, LibvirtFailed
from kvedge.resources.access_credentials import AgentCredential
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAnn ann@desk"
NEXT_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINext ann@desk"


class PlayedGuest:
    """An agent that keeps what it is told, and refuses what it is told to refuse."""

    def __init__(self) -> None:
        self.keys: dict[str, list[str]] = {}
        self.passwords: list[tuple[str, str]] = []
        self.refused: dict[str, str] = {}

    def ask_agent(self, command: str, seconds: int, arguments: dict[str, Any]) -> str:
        user = arguments["username"]
        if command in self.refused:
            raise LibvirtFailed("asking", 86, 10, self.refused[command])
        if command == "guest-ssh-get-authorized-keys":
            if user not in self.keys:
                raise LibvirtFailed("asking", 86, 10, "Failed to open file: No such file or directory")
            return json.dumps({"return": {"keys": self.keys[user]}})
        if command == "guest-ssh-add-authorized-keys":
            self.keys.setdefault(user, []).extend(arguments["keys"])
        elif command == "guest-ssh-remove-authorized-keys":
            self.keys[user] = [key for key in self.keys[user] if key not in arguments["keys"]]
        else:
            self.passwords.append((user, base64.b64decode(arguments["password"]).decode()))
        return '{"return": {}}'


class Stage:
    """A keeper whose thread a test is, its guest, and its Pod's Secrets."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.guest, self.time, self.changes = directory, PlayedGuest(), 0.0, 0
        self.line = AgentLine(cast("LibvirtSession", self.guest))
        self.keeper = CredentialKeeper(self.line, str(directory), self._note, lambda: self.time)
        self.keeper._credentials = [AgentCredential("keys", ("ann",)), AgentCredential("words", None)]

    def _note(self) -> None:
        self.changes += 1

    def put(self, secret: str, **files: str) -> None:
        """Exchange a Secret as the kubelet does."""
        place = self.directory / f"{secret}-access-cred"
        shutil.rmtree(place, ignore_errors=True)
        (place / "..1").mkdir(parents=True)
        (place / "..data").symlink_to("..1")
        for name, content in files.items():
            (place / "..1" / name).write_text(content)

    def look(self, *, connected: bool = True, running: bool = True) -> tuple[bool, str]:
        self.line.state.follow(connected=connected, running=running, now=self.time)
        self.keeper.look()
        word = self.keeper.describe()
        assert word is not None
        return word.synchronized, word.message


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path)
    made.put("keys", key=KEY)
    made.put("words", ann="one")
    return made


def test_a_guest_whose_agent_comes_has_its_keys_and_passwords(stage: Stage) -> None:
    assert stage.look(connected=False) == (False, OFFLINE)
    assert stage.look() == (True, "")
    assert stage.guest.keys == {"ann": [f"{KEY} {MARK}"]}
    assert stage.guest.passwords == [("ann", "one")]
    assert stage.changes == 2


def test_what_leaves_a_secret_leaves_the_guest_and_others_keys_stay(stage: Stage) -> None:
    stage.guest.keys["ann"] = ["ssh-rsa AAAAB3 another's"]
    stage.look()
    stage.put("keys", key=NEXT_KEY)
    stage.look()
    assert stage.guest.keys["ann"] == ["ssh-rsa AAAAB3 another's", f"{NEXT_KEY} {MARK}"]


def test_a_password_is_told_when_it_changes_or_another_agent_comes_and_else_left_to_its_user(stage: Stage) -> None:
    stage.look()
    stage.time += credential_keeper.CHECK_SECONDS
    stage.look()
    assert stage.guest.passwords == [("ann", "one")]
    stage.put("words", ann="two")
    stage.look()
    stage.look(connected=False)
    stage.look()
    assert [word for _, word in stage.guest.passwords] == ["one", "two", "two"]


def test_keys_that_go_astray_in_the_guest_come_back_at_the_next_check(stage: Stage) -> None:
    stage.look()
    stage.guest.keys.clear()
    stage.look()
    assert not stage.guest.keys
    stage.time += credential_keeper.CHECK_SECONDS
    stage.look()
    assert stage.guest.keys


def test_a_refusal_is_told_without_the_secret_and_tried_again_ever_more_rarely(stage: Stage) -> None:
    stage.guest.refused["guest-set-user-password"] = "no such user"
    synchronized, message = stage.look()
    assert not synchronized
    assert "setting password for user [ann]" in message
    assert "no such user" in message
    assert "one" not in message.split()
    stage.guest.refused.clear()
    assert stage.look() == (False, message)
    stage.time += 16
    assert stage.look() == (True, "")


def test_an_agent_without_keys_is_told_by_its_version(stage: Stage) -> None:
    stage.guest.refused["guest-ssh-get-authorized-keys"] = "The command x has not been found"
    assert "5.2 or newer" in stage.look()[1]


def test_a_paused_guest_is_not_asked_and_keeps_its_word(stage: Stage) -> None:
    stage.look()
    stage.put("keys", key=NEXT_KEY)
    assert stage.look(running=False) == (True, "")
    assert stage.guest.keys["ann"] == [f"{KEY} {MARK}"]


def test_a_secret_that_is_not_there_is_named(stage: Stage) -> None:
    shutil.rmtree(stage.directory / "keys-access-cred")
    assert stage.look() == (False, "Secret keys cannot be read: No such file or directory")


def test_a_vmi_without_any_costs_nothing_and_one_that_is_none_is_refused(stage: Stage) -> None:
    keeper = CredentialKeeper(stage.line, "/none", lambda: None)
    keeper.follow(SyncRequest(vmi_json=b'{"spec": {}}'), None)
    assert keeper.describe() is None
    assert keeper._thread is None
    with pytest.raises(BadRequest, match="the VMI"):
        keeper.follow(SyncRequest(vmi_json=b"[]"), None)
