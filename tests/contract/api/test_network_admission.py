"""Networks that no Pod could join are refused by both servers when they are written, where kvedge joins Pods."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.errors import AlreadyExists, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called", "networks")]
KIND = NetworkAttachmentDefinition.KIND
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def networks(admin: KubeClient) -> Iterator[None]:
    """Multus' kind, which one box has by itself."""
    made = False
    with contextlib.suppress(AlreadyExists):
        admin.request("POST", CRDS, attachment_crd())
        made = True

    def is_served() -> bool:
        try:
            admin.request("GET", KIND.path("default"))
        except NotFound:
            return False
        return True

    wait_until(is_served, "the kind is served")
    yield
    if made:
        admin.request("DELETE", f"{CRDS}/{KIND.qualified_plural}")


def make(admin: KubeClient, config: str) -> None:
    document: JsonObject = {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": "judged"},
        "spec": {"config": config},
    }
    admin.request("POST", KIND.path("default"), document)
    admin.request("DELETE", KIND.path("default", "judged"))


def text(**config: Any) -> str:
    return json.dumps({"type": "bridge", "bridge": "br0", **config})


def test_a_network_in_our_words_is_refused_with_its_field(admin: KubeClient) -> None:
    with pytest.raises(KubeError, match=r"spec\.config\.vlan: '4095' is out of range") as refused:
        make(admin, text(vlan=4095, kvedge={"allowServers": True}))
    assert [cause.field for cause in refused.value.causes] == ["spec.config"]
    make(admin, text(vlan=7, kvedge={"allowServers": True}))


def test_all_others_are_one_boxs_to_judge_and_a_clusters_plugins(admin: KubeClient, server: Any) -> None:
    if server.name == "real":
        make(admin, "no JSON")
        return
    with pytest.raises(KubeError, match="this is no JSON"):
        make(admin, "no JSON")
    make(admin, json.dumps({"type": "ptp"}))
