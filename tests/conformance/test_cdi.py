"""The parts of CDI's tier, without a box and without CDI's binary."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import Conflict
from tests.conformance.cdi.images import sums, write_sums
from tests.conformance.cdi.known_specs import CANNOT_APPLY
from tests.conformance.cdi.played_cdi import PlayedCdi
from tests.conformance.known_specs import Place, patterns
from tests.conformance.played_front import Played

CDIS = "/apis/cdi.kubevirt.io/v1beta1/cdis"
CONFIG = "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config"
PODS = "/api/v1/namespaces/some/pods"


class ConfigServer:
    """A box's CDIConfig, whose version a test may let somebody else change."""

    def __init__(self) -> None:
        metadata = {"name": "config", "uid": "one", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.config: dict[str, Any] = {"metadata": metadata, "spec": {"featureGates": ["HonorWaitForFirstConsumer"]}}

    def ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
        if path != CONFIG:
            return {"kind": "APIResourceList", "resources": [{"name": "datavolumes"}]}
        if method == "PUT":
            assert body is not None
            version = self.config["metadata"]["resourceVersion"]
            if body["metadata"]["resourceVersion"] != version:
                raise Conflict("the object has been modified", "Conflict", 409)
            metadata = {**body["metadata"], "resourceVersion": str(int(version) + 1)}
            self.config = {**body, "metadata": metadata}
        return json.loads(json.dumps(self.config))


def test_cdis_own_object_holds_what_the_cdi_config_holds() -> None:
    code, found = PlayedCdi(ConfigServer().ask).answer("GET", f"{CDIS}/cdi", b"")
    assert (code, found["kind"], found["status"]["phase"]) == (200, "CDI", "Deployed")
    assert (found["metadata"]["name"], found["metadata"]["resourceVersion"]) == ("cdi", "7")
    assert found["spec"]["config"] == {"featureGates": ["HonorWaitForFirstConsumer"]}


def test_there_is_one_of_them() -> None:
    played = PlayedCdi(ConfigServer().ask)
    code, found = played.answer("GET", f"{CDIS}?limit=500", b"")
    assert (code, found["kind"]) == (200, "CDIList")
    assert found["items"] == [played.answer("GET", f"{CDIS}/cdi", b"")[1]]


def test_what_is_written_into_it_goes_into_the_cdi_config() -> None:
    server = ConfigServer()
    played = PlayedCdi(server.ask)
    found = played.answer("GET", f"{CDIS}/cdi", b"")[1]
    found["spec"]["config"] = {"logVerbosity": 3}
    code, written = played.answer("PUT", f"{CDIS}/cdi", json.dumps(found).encode())
    assert (code, written["metadata"]["resourceVersion"]) == (200, "8")
    assert server.config["spec"] == written["spec"]["config"] == {"logVerbosity": 3}


def test_a_stale_write_of_it_is_a_conflict() -> None:
    server = ConfigServer()
    stale = {"metadata": {"resourceVersion": "6"}, "spec": {"config": {"logVerbosity": 3}}}
    code, found = PlayedCdi(server.ask).answer("PUT", f"{CDIS}/cdi", json.dumps(stale).encode())
    assert (code, found["code"], found["reason"]) == (409, 409, "Conflict")
    assert server.config["spec"] == {"featureGates": ["HonorWaitForFirstConsumer"]}


def test_its_kind_is_among_those_of_its_group() -> None:
    code, found = PlayedCdi(ConfigServer().ask).answer("GET", "/apis/cdi.kubevirt.io/v1beta1", b"")
    assert (code, [kind["name"] for kind in found["resources"]]) == (200, ["datavolumes", "cdis"])


@pytest.mark.parametrize(
    ("method", "path", "is_its"),
    [
        ("GET", "/apis/cdi.kubevirt.io/v1beta1?timeout=32s", True),
        ("GET", CDIS, True),
        ("PUT", f"{CDIS}/cdi/status", True),
        ("POST", "/apis/cdi.kubevirt.io/v1beta1", False),
        ("GET", CONFIG, False),
        ("GET", "/apis/cdi.kubevirt.io/v1beta1/namespaces/some/datavolumes", False),
    ],
)
def test_every_other_object_of_its_group_is_the_boxs(method: str, path: str, is_its: bool) -> None:
    assert PlayedCdi(ConfigServer().ask).takes(method, path) is is_its


def test_pods_run_once_only_where_that_was_asked_for() -> None:
    assert Played().change_of("POST", PODS) is None
    assert Played(pods_once=True).change_of("GET", PODS) is None
    assert Played(pods_once=True).change_of("POST", f"{PODS}/one/eviction") is None
    change = Played(pods_once=True).change_of("POST", PODS)
    assert change is not None
    pod = json.loads(change(b'{"spec": {"restartPolicy": "Always", "containers": []}}'))
    assert pod == {"spec": {"restartPolicy": "Never", "containers": []}}


def constants(values: dict[str, str]) -> list[str]:
    return [f'\t{name}   = "{value}"' for name, value in values.items()]


def test_the_sums_of_what_is_made_are_written_into_the_tests(tmp_path: Path) -> None:
    file, other = tmp_path / "tests/utils/common.go", tmp_path / "tests/other_test.go"
    file.parent.mkdir(parents=True)
    old = "11d74aa12309da7240f171c140394729bb9b407e8fa3cb52c6dcbf7009352fab"
    none = dict.fromkeys([*sums(), "OtherMD5"], "0" * 32)
    file.write_text("\n".join([*constants(none), f'\tsha = "sha256:{old}"']))
    other.write_text("package tests\n")
    write_sums(tmp_path)
    written = file.read_text().splitlines()
    assert written[:-1] == constants({**none, **sums()})
    assert re.fullmatch(r'\tsha = "sha256:[0-9a-f]{64}"', written[-1])
    assert old not in written[-1]
    assert other.read_text() == "package tests\n"


@pytest.mark.parametrize("pattern", patterns(CANNOT_APPLY, Place.BOX))
def test_what_is_left_out_is_a_pattern(pattern: str) -> None:
    assert re.compile(pattern).search("") is None
