"""What is left when a step of a move with disks is refused, or its answer is lost: nothing, or a VM that names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.disk_moves import Moved, move_disks, put_back
from kvedge.client.errors import NotFoundError, RefusedError
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.session import Session, connect
from kvedge.kube.errors import Forbidden, Unavailable
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.moves.disk_moves import Exchange as ClaimExchange
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.scripted_api import Exchange, scripted_api
from tests.unit.resources.moves.test_disk_moves import CLAIMS, a_run, a_vm

VM = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/web"
VMI = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/web"
CLAIMS_AT = "/api/v1/namespaces/default/persistentvolumeclaims"
NO: JsonObject = {"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}
BUSY: JsonObject = {"kind": "Status", "reason": "ServiceUnavailable", "message": "busy", "code": 503}


class Server:
    """A VM, its run and its claims; what it refuses is named by `METHOD number of the call`."""

    def __init__(self) -> None:
        self.vm: JsonObject = encode(a_vm())
        self.run: JsonObject | None = encode(a_run())
        self.claims: dict[str, JsonObject] = {name: encode(claim) for name, claim in CLAIMS.items()}
        self.refuse: dict[str, tuple[int, JsonObject]] = {}
        # Writes that are made although their answer says otherwise.
        self.lost: set[str] = set()
        self.queries: list[dict[str, str]] = []
        self.calls: dict[str, int] = {}
        # Another writer comes between the reading of the VM and its change, so many times.
        self.others = 0

    def script(self, exchange: Exchange) -> None:
        request = exchange.request
        self.calls[request.method] = self.calls.get(request.method, 0) + 1
        call = f"{request.method} {self.calls[request.method]}"
        if request.method != "GET":
            self.queries.append(request.query)
        if request.method == "GET":
            self._answer(exchange, self._read(request.path))
            return
        if request.method == "PATCH" and self.others:
            self.others -= 1
            self.vm["metadata"]["resourceVersion"] += "0"
            exchange.answer(422, {"kind": "Status", "reason": "Invalid", "message": "test failed", "code": 422})
            return
        refusal = self.refuse.get(call)
        made = None if refusal is not None and call not in self.lost else self._write(request)
        if refusal is not None:
            exchange.answer(*refusal)
        else:
            exchange.answer(200, made or {"kind": "Status", "status": "Success"})

    def _read(self, path: str) -> JsonObject | None:
        if path == VM:
            return self.vm
        return self.run if path == VMI else self.claims.get(path.removeprefix(f"{CLAIMS_AT}/"))

    def _write(self, request: Any) -> JsonObject | None:
        body = json.loads(request.body)
        if request.query.get("dryRun"):
            return body if isinstance(body, dict) else self.vm
        if request.method == "POST":
            assert body["kind"] == "PersistentVolumeClaim"
            name = body["metadata"]["name"]
            body["metadata"]["uid"] = f"uid-{name}"
            self.claims[name] = body
            return dict(body)
        if request.method == "DELETE":
            name = request.path.removeprefix(f"{CLAIMS_AT}/")
            assert body["preconditions"]["uid"] == f"uid-{name}"
            del self.claims[name]
            return None
        for each in body:
            if each["op"] == "replace":
                index = int(each["path"].rpartition("/")[2])
                self.vm["spec"]["template"]["spec"]["volumes"][index] = each["value"]
        return self.vm

    def _answer(self, exchange: Exchange, found: JsonObject | None) -> None:
        gone = {"kind": "Status", "reason": "NotFound", "message": "gone", "code": 404}
        exchange.answer(404 if found is None else 200, gone if found is None else found)

    def new_claims(self) -> set[str]:
        return self.claims.keys() - CLAIMS.keys()

    def named(self) -> set[str]:
        volumes = self.vm["spec"]["template"]["spec"]["volumes"]
        return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}


@contextmanager
def connected(server: Server, folder: Path) -> Iterator[Session]:
    with scripted_api(server.script) as api:
        session = connect(load_kubeconfigs((api.write_kubeconfig(folder / "kubeconfig"),), None))
        yield session
        session.client.close()


def test_claims_are_made_and_the_vm_names_them_and_what_is_left_is_told(tmp_path: Path) -> None:
    server = Server()
    with connected(server, tmp_path) as session:
        moved = move_disks(session, "web", dry_run=False)
    assert len(server.new_claims()) == 2
    assert server.new_claims() <= server.named()
    root, data = moved.describe()
    assert root.startswith("  root: from claim web-root to web-root-moved-")
    assert data.startswith("  data: from claim data to data-moved-")
    assert moved.describe_left() == (
        "the old claims web-root, data still take space, with the data of before: `kvedge delete dv web-root` and"
        " `kvedge delete pvc data` to be rid of it"
    )


def test_one_claim_that_is_left_is_told_as_one() -> None:
    old, new = (PersistentVolumeClaim(metadata=ObjectMeta(name=name)) for name in ("data", "data-moved-bcdfg"))
    left = Moved("web", (ClaimExchange("data", old.metadata.name, new),)).describe_left()
    assert left.startswith("the old claim data still takes space, with the data of before: `kvedge delete pvc data`")


def test_a_dry_run_has_the_server_judge_all_of_it_and_changes_nothing(tmp_path: Path) -> None:
    server = Server()
    with connected(server, tmp_path) as session:
        move_disks(session, "web", dry_run=True)
    assert server.queries == [{"dryRun": "All"}] * 3
    assert server.new_claims() == set()


@pytest.mark.parametrize("call", ["POST 1", "POST 2", "PATCH 1"])
def test_nothing_is_left_of_a_step_that_is_refused(tmp_path: Path, call: str) -> None:
    server = Server()
    server.refuse = {call: (403, NO)}
    with connected(server, tmp_path) as session, pytest.raises(Forbidden):
        move_disks(session, "web", dry_run=False)
    assert server.new_claims() == set()


def test_a_claim_of_which_no_answer_came_is_removed_too(tmp_path: Path) -> None:
    server = Server()
    server.refuse, server.lost = {"POST 2": (503, BUSY)}, {"POST 2"}
    with connected(server, tmp_path) as session, pytest.raises(Unavailable):
        move_disks(session, "web", dry_run=False)
    assert server.new_claims() == set()


def test_a_change_of_which_no_answer_came_is_kept_where_it_was_made(tmp_path: Path) -> None:
    server = Server()
    server.refuse, server.lost = {"PATCH 1": (503, BUSY)}, {"PATCH 1"}
    with connected(server, tmp_path) as session:
        move_disks(session, "web", dry_run=False)
    assert server.new_claims()
    assert server.new_claims() <= server.named()


def test_a_claim_that_cannot_be_removed_is_named(tmp_path: Path) -> None:
    server = Server()
    server.refuse = {"PATCH 1": (403, NO), "DELETE 1": (403, NO)}
    with connected(server, tmp_path) as session, pytest.raises(RefusedError) as refused:
        move_disks(session, "web", dry_run=False)
    (left,) = server.new_claims()
    assert f"`kvedge delete pvc {left}` removes it" in refused.value.text


def test_somebody_who_writes_meanwhile_is_followed_and_no_claim_is_left_of_it(tmp_path: Path) -> None:
    server = Server()
    server.others = 1
    with connected(server, tmp_path) as session:
        move_disks(session, "web", dry_run=False)
    assert len(server.new_claims()) == 2
    assert server.new_claims() <= server.named()


def test_a_vm_that_does_not_run_or_cannot_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    server = Server()
    server.run = None
    with connected(server, tmp_path) as session, pytest.raises(NotFoundError, match="does not run"):
        move_disks(session, "web", dry_run=False)
    server.run = encode(a_run(disks={"data": {"lun": {}}}))
    with connected(server, tmp_path) as session, pytest.raises(RefusedError, match="volume data is a LUN"):
        move_disks(session, "web", dry_run=False)
    assert server.queries == []


def moving(server: Server, *claims: str) -> None:
    """The run says that `data` moves, by now to each of these claims in turn."""
    for claim in claims:
        server.vm["spec"]["template"]["spec"]["volumes"][3] = {
            "name": "data",
            "persistentVolumeClaim": {"claimName": claim},
        }
    assert server.run is not None
    names = {"sourcePVCInfo": {"claimName": "data"}, "destinationPVCInfo": {"claimName": claims[0]}}
    server.run["status"]["migratedVolumes"] = [{"volumeName": "data", **names}]


def test_a_move_that_is_called_off_has_the_vm_name_what_its_guest_uses(tmp_path: Path) -> None:
    server = Server()
    with connected(server, tmp_path) as session:
        assert put_back(session, "web", dry_run=False) == []
        assert server.queries == []
        moving(server, "data-moved-abcde")
        assert put_back(session, "web", dry_run=True) == ["data-moved-abcde"]
        assert server.queries == [{"dryRun": "All"}]
        assert "data-moved-abcde" in server.named()
        assert put_back(session, "web", dry_run=False) == ["data-moved-abcde"]
    assert server.named() == {"data", "shared"}


def test_what_the_vms_user_has_named_meanwhile_is_left_and_a_vm_without_a_run_too(tmp_path: Path) -> None:
    server = Server()
    moving(server, "data-moved-abcde", "another")
    with connected(server, tmp_path) as session:
        assert put_back(session, "web", dry_run=False) == []
        server.run = None
        assert put_back(session, "web", dry_run=False) == []
    assert server.queries == []
