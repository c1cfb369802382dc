"""What is taken away on the new box: all of a move that failed, and no disk of a guest whose old box is lost.

The API is played; `tests/contract/controller/test_two_boxes.py` has the real ones.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.client.boxes.box_move import BoxMove, forget, undo
from kvedge.client.boxes.moved_vm import MADE_FOR
from kvedge.client.errors import RefusedError
from kvedge.client.session import Session
from kvedge.kube.errors import Forbidden, NotFound
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.moves.crossing import WAIT_AS_RECEIVER
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi, vm_of

MADE = {MADE_FOR: "m-1"}
EMPTY: JsonObject = {"spec": {}, "status": {}}
VMI: JsonObject = {
    **small_vmi(),
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    "status": {"phase": "WaitingForSync", "migrationState": {"migrationUid": "m-1", "targetNode": "here"}},
}


class PlayedBox:
    """An API with what a move has made on it; `refuses` are verbs with a kind that are forbidden."""

    def __init__(self) -> None:
        self.refuses: set[str] = set()
        self.objects: dict[tuple[str, str], JsonObject] = {
            ("VirtualMachineInstance", "web"): VMI,
            ("VirtualMachine", "web"): vm_of(small_vmi(), runStrategy=WAIT_AS_RECEIVER),
            ("PersistentVolumeClaim", "data"): EMPTY,
            ("PersistentVolumeClaim", "root"): EMPTY,
            ("secrets", "keys"): EMPTY,
        }
        for (kind, name), found in self.objects.items():
            meta = {"namespace": "default", **found.get("metadata", {}), "name": name, "labels": dict(MADE)}
            self.objects[kind, name] = {**found, "metadata": meta}
        other = {"name": "other", "namespace": "default", "labels": {}}
        self.objects["PersistentVolumeClaim", "other"] = {**EMPTY, "metadata": other}

    @property
    def session(self) -> Session:
        return cast(Session, SimpleNamespace(client=self, namespace="default"))

    @property
    def marked_claims(self) -> list[str]:
        return [name for kind, name in self._marked() if kind == "PersistentVolumeClaim"]

    @property
    def names(self) -> list[str]:
        """Of all that is there."""
        return sorted(name for _, name in self.objects)

    def _marked(self) -> list[tuple[str, str]]:
        return [key for key, found in self.objects.items() if MADE_FOR in found["metadata"]["labels"]]

    def _find(self, verb: str, kind: str, name: str) -> JsonObject:
        if f"{verb} {kind}" in self.refuses:
            raise Forbidden(403, "Forbidden", f"{verb} {kind}")
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", name)
        return self.objects[kind, name]

    def get(self, cls: Any, _namespace: str, name: str) -> Any:
        return decode(cls, self._find("get", cls.__name__, name))

    def list(self, cls: Any, _namespace: str, selector: str = "") -> list[Any]:
        found = [key for key in self._marked() if key[0] == cls.__name__ and selector == f"{MADE_FOR}=m-1"]
        return [decode(cls, self.objects[key]) for key in found]

    def delete(self, cls: Any, _namespace: str, name: str, seen: Any = None) -> None:
        found = self._find("delete", cls.__name__, name)
        if cls is VirtualMachineInstance:
            assert (seen.uid, seen.resource_version) == (found["metadata"]["uid"], "7")
        del self.objects[cls.__name__, name]

    def patch(self, cls: Any, _namespace: str, name: str, patch: Any) -> None:
        assert patch.body == {"metadata": {"labels": {MADE_FOR: None}}}
        del self._find("patch", cls.__name__, name)["metadata"]["labels"][MADE_FOR]

    def request(self, method: str, path: str, body: Any = None, query: Any = None) -> JsonObject:
        resource, _, name = path.removeprefix("/api/v1/namespaces/default/").partition("/")
        if method == "DELETE":
            self._find("delete", resource, name)
            del self.objects[resource, name]
            return {}
        assert query == {"labelSelector": f"{MADE_FOR}=m-1"}
        return {"items": [found for key, found in self.objects.items() if key[0] == resource and key in self._marked()]}


def test_the_claims_of_a_guest_whose_old_box_is_lost_stay_and_are_named() -> None:
    box = PlayedBox()
    told = forget(box.session, "web")
    assert box.names == ["data", "other", "root"]
    # So that nothing that takes the rest of the move away finds them later.
    assert box.marked_claims == []
    assert "stay, as they may hold the last copy of its disks: data, root" in told
    assert "`kvedge delete pvc data root`" in told


def test_the_claims_go_only_where_that_is_asked_for() -> None:
    box = PlayedBox()
    told = forget(box.session, "web", delete_claims=True)
    assert box.names == ["other"]
    assert told.endswith("with the claims that were made for it: data, root")


@pytest.mark.parametrize("delete_claims", [False, True])
def test_what_the_server_refuses_is_told_and_the_command_may_be_given_again(delete_claims: bool) -> None:
    box = PlayedBox()
    verb = "delete" if delete_claims else "patch"
    for refused in (f"{verb} PersistentVolumeClaim", "delete secrets", "delete VirtualMachine"):
        box.refuses = {refused}
        with pytest.raises(Forbidden):
            forget(box.session, "web", delete_claims=delete_claims)
        assert ("VirtualMachine", "web") in box.objects
    box.refuses = set()
    forget(box.session, "web", delete_claims=delete_claims)
    assert box.names == (["other"] if delete_claims else ["data", "other", "root"])


def test_a_guest_that_has_left_the_other_box_keeps_all() -> None:
    box = PlayedBox()
    found = box.objects["VirtualMachineInstance", "web"]
    found["status"] = {**VMI["status"], "migrationState": {"sourceNodeDomainGoneTimestamp": "2026-01-01T00:00:00Z"}}
    before = box.names
    with pytest.raises(RefusedError, match="has left the other box"):
        forget(box.session, "web", delete_claims=True)
    assert (box.names, box.marked_claims) == (before, ["data", "root"])


def test_claims_are_deleted_of_no_vm_that_awaits_nobody() -> None:
    box = PlayedBox()
    box.objects["VirtualMachine", "web"]["spec"]["runStrategy"] = "Halted"
    with pytest.raises(RefusedError, match="awaits no guest"):
        forget(box.session, "web", delete_claims=True)
    assert box.marked_claims == ["data", "root"]


def test_nothing_is_left_of_a_move_that_failed_while_both_boxes_live() -> None:
    source, target = PlayedBox(), PlayedBox()
    del target.objects["VirtualMachineInstance", "web"]
    # The VM's own, whatever becomes of the rest.
    target.refuses = {"delete VirtualMachine"}
    undo(BoxMove(source.session, target.session, "web", "192.0.2.1:1", "m-1"))
    assert target.names == ["other", "web"]
    target.refuses = set()
    undo(BoxMove(source.session, target.session, "web", "192.0.2.1:1", "m-1"))
    assert target.names == ["other"]
    assert source.marked_claims == ["data", "root"]
