"""The kind of networks that one box has where a cluster has Multus'."""

from __future__ import annotations

from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.standalone.apiserver.kinds.custom.crd_rules import check_crd


def test_the_kind_is_called_as_multus_calls_it() -> None:
    crd = attachment_crd()
    assert crd["metadata"]["name"] == "network-attachment-definitions.k8s.cni.cncf.io"
    assert crd["spec"]["names"]["kind"] == "NetworkAttachmentDefinition"
    assert crd["spec"]["names"]["shortNames"] == ["net-attach-def"]
    (version,) = crd["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)


def test_the_embedded_api_finds_nothing_wrong_with_it() -> None:
    assert check_crd(attachment_crd()) == []
