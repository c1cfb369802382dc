"""Which KubeVirt object counts, and who may change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from kvedge.client.errors import NotFoundError
from kvedge.client.session import Session
from kvedge.resources.codec import decode
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.web.site.settings_calls import read_settings


@dataclass
class PlayedServer:
    """Has KubeVirt objects; the user may change those of the namespaces that are named."""

    found: list[KubeVirt]
    may_edit: tuple[str, ...] = ()

    def hurry(self, seconds: float) -> PlayedServer:
        return self

    def list(self, kind: type[KubeVirt]) -> list[KubeVirt]:
        return self.found

    def request(self, method: str, path: str, body: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        assert (asked["verb"], asked["group"], asked["resource"]) == ("update", "kubevirt.io", "kubevirts")
        return {"status": {"allowed": asked["namespace"] in self.may_edit}}


@dataclass(frozen=True)
class PlayedSession:
    client: PlayedServer


def settings(*found: KubeVirt, may_edit: tuple[str, ...] = ()) -> Any:
    return read_settings(cast(Session, PlayedSession(PlayedServer(list(found), may_edit))))


def kubevirt(namespace: str, created: str) -> KubeVirt:
    about = {"name": "kubevirt", "namespace": namespace, "creationTimestamp": created}
    return decode(KubeVirt, {"metadata": about, "spec": {}})


def test_the_oldest_one_counts_and_its_namespace_decides_who_may_change_it() -> None:
    new, old = kubevirt("a", "2026-01-02T00:00:00Z"), kubevirt("b", "2026-01-01T00:00:00Z")
    assert settings(new, old, may_edit=("b",)) | {"namespace": "b", "mayEdit": True} == settings(
        new, old, may_edit=("b",)
    )
    assert settings(new, old, may_edit=("a",))["mayEdit"] is False


def test_without_one_all_is_as_by_default() -> None:
    with pytest.raises(NotFoundError, match="as by default"):
        settings()
