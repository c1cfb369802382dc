"""The life of a custom kind: created, its schema changed, versions added and taken away, deleted with its objects."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from tests.support.api_client import ApiClient, eventually, names
from tests.support.widgets import WIDGET_CRD

pytestmark = pytest.mark.contract

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count(1)


class Kind:
    """A kind of the test's own, in one version with a small schema."""

    def __init__(self, admin: ApiClient) -> None:
        self.admin = admin
        number = next(_numbers)
        self.plural, self.kind = f"things{number}", f"Thing{number}"
        self.crd = copy.deepcopy(WIDGET_CRD)
        self.crd["metadata"]["name"] = f"{self.plural}.example.org"
        self.crd["spec"]["group"] = "example.org"
        self.crd["spec"]["names"] = {"plural": self.plural, "singular": self.kind.lower(), "kind": self.kind}
        self.version = self.crd["spec"]["versions"][0]
        self.crd["spec"]["versions"] = [self.version]
        self.version["additionalPrinterColumns"] = []

    @property
    def properties(self) -> dict[str, Any]:
        properties: dict[str, Any] = self.version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        return properties

    def path(self, name: str = "", version: str = "v1") -> str:
        base = f"/apis/example.org/{version}/namespaces/default/{self.plural}"
        return f"{base}/{name}" if name else base

    def create(self) -> None:
        assert self.admin.post(_CRDS, self.crd).status == 201
        eventually(lambda: self.admin.get(self.path()).status == 200)

    def update(self) -> None:
        """Write the definition as it now is; conflicts are with the server's own writes of its status."""

        def written() -> bool:
            live = self.admin.get(f"{_CRDS}/{self.crd['metadata']['name']}").json
            answer = self.admin.put(f"{_CRDS}/{self.crd['metadata']['name']}", {**live, "spec": self.crd["spec"]})
            assert answer.status in (200, 409), answer.body
            return answer.status == 200

        eventually(written)

    def thing(self, name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "example.org/v1",
            "kind": self.kind,
            "metadata": {"name": name},
            "spec": {"size": 1, **spec},
        }

    def delete(self) -> None:
        self.admin.delete(f"{_CRDS}/{self.crd['metadata']['name']}")
        eventually(lambda: self.admin.get(f"{_CRDS}/{self.crd['metadata']['name']}").status == 404)


@pytest.fixture
def kind(admin: ApiClient) -> Any:
    made = Kind(admin)
    made.create()
    yield made
    made.delete()


def test_a_field_is_dropped_before_the_schema_knows_it_and_kept_afterwards(admin: ApiClient, kind: Kind) -> None:
    assert "weight" not in admin.made(kind.path(), kind.thing("before", weight=5))["spec"]
    kind.properties["weight"] = {"type": "integer", "default": 7}
    kind.update()

    def kept() -> bool:
        answer = admin.post(kind.path(), kind.thing("probe", weight=5), dryRun="All")
        return bool(answer.json["spec"].get("weight") == 5)

    eventually(kept)
    assert admin.made(kind.path(), kind.thing("after"))["spec"]["weight"] == 7
    # What was stored before shows the default as well.
    assert admin.get(kind.path("before")).json["spec"]["weight"] == 7


def test_a_stricter_schema_is_for_new_writes_and_leaves_what_is_there(admin: ApiClient, kind: Kind) -> None:
    admin.made(kind.path(), kind.thing("old", size=9))
    kind.properties["size"]["maximum"] = 5
    kind.update()
    eventually(lambda: admin.post(kind.path(), kind.thing("probe", size=9), dryRun="All").status == 422)
    assert admin.get(kind.path("old")).json["spec"]["size"] == 9
    assert names(admin.get(kind.path())) == ["old"]
    refused = admin.patch(kind.path("old"), {"spec": {"size": 8}})
    assert refused.status == 422
    assert refused.causes[0]["field"] == "spec.size"
    assert admin.patch(kind.path("old"), {"spec": {"size": 3}}).status == 200
    assert admin.delete(kind.path("old")).status == 200


def test_a_version_is_served_and_no_longer(admin: ApiClient, kind: Kind) -> None:
    admin.made(kind.path(), kind.thing("a"))
    second = copy.deepcopy(kind.version)
    second.update(name="v2", storage=False)
    kind.crd["spec"]["versions"].append(second)
    kind.update()
    eventually(lambda: admin.get(kind.path("a", "v2")).status == 200)
    assert admin.get(kind.path("a", "v2")).json["apiVersion"] == "example.org/v2"
    second["served"] = False
    kind.update()
    eventually(lambda: admin.get(kind.path("a", "v2")).status == 404)
    assert admin.get(kind.path("a")).status == 200


def test_the_version_that_is_stored_may_change_and_stays_known(admin: ApiClient, kind: Kind) -> None:
    admin.made(kind.path(), kind.thing("a"))
    second = copy.deepcopy(kind.version)
    second.update(name="v2", storage=True)
    kind.version["storage"] = False
    kind.crd["spec"]["versions"].append(second)
    kind.update()
    eventually(lambda: admin.get(kind.path("a", "v2")).status == 200)
    crd = admin.get(f"{_CRDS}/{kind.crd['metadata']['name']}").json
    assert crd["status"]["storedVersions"] == ["v1", "v2"]
    kind.crd["spec"]["versions"] = [second]
    answer = admin.put(f"{_CRDS}/{crd['metadata']['name']}", {**crd, "spec": kind.crd["spec"]})
    assert answer.status == 422
    assert "status.storedVersions" in answer.message
    kind.crd["spec"]["versions"] = crd["spec"]["versions"]


def test_a_kind_goes_with_its_objects_and_comes_back_empty(admin: ApiClient) -> None:
    kind = Kind(admin)
    kind.create()
    for number in range(5):
        admin.made(kind.path(), kind.thing(f"t{number}"))
    watch = admin.watch(kind.path(), resourceVersion=admin.get(kind.path()).json["metadata"]["resourceVersion"])
    kind.delete()
    eventually(lambda: admin.get(kind.path()).status == 404)
    gone = {event["object"]["metadata"]["name"] for event in watch.events if event["type"] == "DELETED"}
    assert gone <= {f"t{number}" for number in range(5)}
    watch.close()
    kind.create()
    assert names(admin.get(kind.path())) == []
    assert admin.made(kind.path(), kind.thing("t0"))["metadata"]["generation"] == 1
    kind.delete()


def test_a_kind_whose_objects_have_finalizers_waits_for_them(admin: ApiClient) -> None:
    kind = Kind(admin)
    kind.create()
    held = kind.thing("held")
    held["metadata"]["finalizers"] = ["example.org/wait"]
    admin.made(kind.path(), held)
    admin.made(kind.path(), kind.thing("free"))
    name = kind.crd["metadata"]["name"]
    assert admin.delete(f"{_CRDS}/{name}").status == 200
    eventually(lambda: names(admin.get(kind.path())) == ["held"])
    crd = admin.get(f"{_CRDS}/{name}").json
    assert crd["metadata"]["deletionTimestamp"]
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions["Terminating"] == "True"
    assert admin.post(kind.path(), kind.thing("new")).status in (403, 404, 405, 409)
    assert admin.patch(kind.path("held"), {"metadata": {"finalizers": None}}).status == 200
    eventually(lambda: admin.get(f"{_CRDS}/{name}").status == 404, seconds=20)


def test_two_kinds_of_one_name_do_not_both_get_it(admin: ApiClient, kind: Kind) -> None:
    other = Kind(admin)
    other.crd["spec"]["names"]["kind"] = kind.kind
    assert admin.post(_CRDS, other.crd).status == 201

    def refused() -> bool:
        status = admin.get(f"{_CRDS}/{other.crd['metadata']['name']}").json.get("status") or {}
        conditions = {item["type"]: item["status"] for item in status.get("conditions") or []}
        return conditions.get("NamesAccepted") == "False" and conditions.get("Established") == "False"

    eventually(refused)
    assert admin.get(other.path()).status == 404
    assert admin.get(kind.path()).status == 200
    other.delete()
