"""What a guest says of itself, bounded: its agent's words may be anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kvedge.client.session import Session
from kvedge.web.vms.vm_guest import read_agent, read_log


class PlayedServer:
    """Answers for each subresource."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def request(self, method: str, path: str, *_: object, **__: object) -> Any:
        self.asked.append(path)
        return self._answers[path.rpartition("/")[2]]

    def content(self, path: str, *_: object, **__: object) -> bytes:
        self.asked.append(path)
        return bytes(self._answers["log"])


def session(answers: dict[str, Any]) -> Any:
    names = Session.__struct_fields__
    return Session(**{**{name: SimpleNamespace() for name in names}, "client": PlayedServer(answers), "namespace": "x"})


def test_an_agents_facts_are_picked_and_cut() -> None:
    answers = {
        "guestosinfo": {"guestAgentVersion": "8.2", "hostname": "h" * 9999, "os": {"prettyName": "Debian\n\x1b[2J"}},
        "userlist": {"items": [{"userName": "ann", "loginTime": 7.5}, "nobody"] + [{"userName": "x"}] * 999},
        "filesystemlist": {"items": [{"mountPoint": "/", "usedBytes": 5, "totalBytes": "many"}]},
    }
    found = read_agent(session(answers), "shop", "web")
    assert found["facts"]["agent"] == "8.2"
    assert len(found["facts"]["host"]) < 1000
    assert "\x1b" not in found["facts"]["system"]
    assert "kernel" not in found["facts"]
    assert found["users"][0] == {"name": "ann", "domain": "", "since": 7.5}
    assert len(found["users"]) == 63
    assert found["fileSystems"] == [{"name": "", "place": "/", "type": "", "used": 5, "total": None}]


def test_an_agent_that_says_nothing_is_no_failure() -> None:
    found = read_agent(session({"guestosinfo": {}, "userlist": {}, "filesystemlist": {"items": None}}), "shop", "web")
    assert found == {"facts": {}, "users": [], "fileSystems": []}


def test_a_log_is_one_character_a_byte_and_no_longer_than_asked_for() -> None:
    found = read_log(session({"log": b"\xff" * 100_000 + "ä".encode()}), "shop", "web")["bytes"]
    assert len(found) == 64 * 1024
    assert found.encode("latin-1").endswith("ä".encode())
