"""What lies among a distribution's manifests."""

from __future__ import annotations

from kvedge.resources.manifests.cluster_manifest import default_kubevirt, list_applied_documents, manifest_documents

# k3s deletes what a file has named and does not name any more, and a server of an older version may have an older file:
# this list may grow only by what nobody misses when it goes for a while.
# Without kvedge-nodes no node fences itself, until it is there again.
_ALWAYS = {
    ("Namespace", "kvedge-system"),
    ("Namespace", "kvedge-nodes"),
    # Its credentials are renewed by the command that made them.
    ("Namespace", "kvedge-crossings"),
    ("KubeVirt", "kubevirt"),
    ("PriorityClass", "kubevirt-cluster-critical"),
}


def test_no_kind_is_among_them_as_its_objects_would_go_with_it() -> None:
    assert not [item for item in manifest_documents() if item["kind"] == "CustomResourceDefinition"]


def test_what_holds_objects_of_others_was_there_from_the_first_version_on() -> None:
    others = {
        (item["kind"], item["metadata"]["name"])
        for item in manifest_documents()
        if item["kind"] not in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }
    assert others == _ALWAYS


def test_the_kubevirt_object_comes_last_and_only_where_its_kind_is_waited_for() -> None:
    assert manifest_documents() == [*list_applied_documents(), default_kubevirt()]
    assert list_applied_documents()[0]["kind"] == "Namespace"
