# Tests: tests/support/edits.py
"""A test's edit of an object that a controller writes, too."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.kube.errors import Conflict, KubeError, NotFound
from tests.support import edits

PATH = "/api/v1/namespaces/default/configmaps/shared"


class BusyObject:
    """A client whose one object others write between its requests, so many times."""

    def __init__(self, others: int, refusal: KubeError | None = None) -> None:
        self.others = others
        self.refusal = refusal or Conflict(409, "Conflict", "the object has been modified")
        self.stored: dict[str, Any] = {"version": 1, "theirs": 0}

    def request(self, method: str, path: str, body: Any = None) -> Any:
        assert path == PATH
        if method == "GET":
            return dict(self.stored)
        if self.others:
            self.others -= 1
            self.stored = {**self.stored, "version": self.stored["version"] + 1, "theirs": self.stored["theirs"] + 1}
            raise self.refusal
        assert body["version"] == self.stored["version"]
        self.stored = {**body, "version": body["version"] + 1}
        return dict(self.stored)


def mine(document: Any) -> None:
    document["mine"] = True


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "_PAUSE", 0.0)


def test_an_edit_is_made_to_what_others_have_written_meanwhile() -> None:
    client: Any = BusyObject(others=3)
    assert edits.edit(client, PATH, mine) == {"version": 5, "theirs": 3, "mine": True}


def test_another_refusal_is_not_tried_again() -> None:
    client: Any = BusyObject(others=1, refusal=NotFound(404, "NotFound", "gone"))
    with pytest.raises(NotFound):
        edits.edit(client, PATH, mine)


def test_an_object_that_never_rests_is_the_last_conflict() -> None:
    client: Any = BusyObject(others=1000)
    with pytest.raises(Conflict):
        edits.edit(client, PATH, mine)
