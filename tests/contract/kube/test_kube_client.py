"""Calls, errors and versions, as both servers have them."""

from __future__ import annotations

import pytest

from kvedge.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient, Preconditions
from kvedge.kube.patches import ApplyPatch, JsonPatch, MergePatch, StrategicPatch, at_version
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.types.core import ConfigMap, Container, Node, Pod, PodSpec
from kvedge.resources.types.vm import VirtualMachine, VirtualMachineInstanceTemplate, VirtualMachineSpec
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.either_server import EitherServer


def a_map(namespace: str, name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"of": "test"}), data=data)


def a_pod(namespace: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", namespace=namespace),
        spec=PodSpec(containers=[Container(name="c", image="i")], automount_service_account_token=False),
    )


def test_what_was_created_is_read_listed_and_deleted(either_server: EitherServer, namespace: str):
    client = either_server.admin
    created = client.create(a_map(namespace, key="value"))
    assert created.metadata.uid
    assert client.get(ConfigMap, namespace, "a") == created
    assert [item.metadata.name for item in client.list(ConfigMap, namespace, "of=test")] == ["a"]
    assert client.list(ConfigMap, namespace, "of=another") == []
    assert client.list(ConfigMap, namespace, field_selector="metadata.name=b") == []
    client.delete(ConfigMap, namespace, "a")
    with pytest.raises(NotFound):
        client.get(ConfigMap, namespace, "a")


def test_a_name_is_taken_once(either_server: EitherServer, namespace: str):
    either_server.admin.create(a_map(namespace))
    with pytest.raises(AlreadyExists):
        either_server.admin.create(a_map(namespace))


def test_a_merge_patch_of_an_old_version_is_a_conflict(either_server: EitherServer, namespace: str):
    client = either_server.admin
    old = client.create(a_map(namespace, key="value"))
    new = client.patch(ConfigMap, namespace, "a", MergePatch({"data": {"key": "other"}}))
    with pytest.raises(Conflict):
        client.patch(ConfigMap, namespace, "a", at_version({"data": {"key": "late"}}, old.metadata.resource_version))
    at_newest = at_version({"data": {"key": None}}, new.metadata.resource_version)
    assert client.patch(ConfigMap, namespace, "a", at_newest).data == {}


def test_a_patch_that_changes_nothing_makes_no_new_version(either_server: EitherServer, namespace: str):
    client = either_server.admin
    made = client.create(a_map(namespace, key="value"))
    same = client.patch(ConfigMap, namespace, "a", MergePatch({"data": {"key": "value"}}))
    assert same.metadata.resource_version == made.metadata.resource_version


def test_a_replace_of_an_old_version_is_a_conflict(either_server: EitherServer, namespace: str):
    client = either_server.admin
    old = client.create(a_map(namespace, key="value"))
    client.patch(ConfigMap, namespace, "a", MergePatch({"data": {"key": "other"}}))
    with pytest.raises(Conflict):
        client.replace(old)


def test_a_json_patch_whose_test_fails_changes_nothing(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(a_map(namespace, key="value"))
    test = {"op": "test", "path": "/data/key", "value": "another"}
    with pytest.raises(KubeError) as caught:
        client.patch(ConfigMap, namespace, "a", JsonPatch([test, {"op": "remove", "path": "/data/key"}]))
    assert caught.value.status == 422
    assert client.get(ConfigMap, namespace, "a").data == {"key": "value"}


def test_server_side_apply_makes_and_changes(either_server: EitherServer, namespace: str):
    client = either_server.admin
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "value"}}
    client.patch(ConfigMap, namespace, "a", ApplyPatch(body, "test"))
    changed = client.patch(ConfigMap, namespace, "a", ApplyPatch({**body, "data": {"key": "b"}}, "test"))
    assert changed.data == {"key": "b"}


def test_a_strategic_patch_merges_conditions_by_their_type(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(a_pod(namespace))
    for type_ in ("Ready", "example.org/gate"):
        body = {"status": {"conditions": [{"type": type_, "status": "True"}]}}
        patched = client.patch(Pod, namespace, "p", StrategicPatch(body), "status")
    assert condition(patched.status.conditions, "Ready") is not None
    assert condition(patched.status.conditions, "example.org/gate") is not None


def test_a_delete_names_the_very_object(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(a_map(namespace))
    with pytest.raises(Conflict):
        client.delete(ConfigMap, namespace, "a", Preconditions(uid="another"))
    assert client.delete(ConfigMap, namespace, "a") is None


def test_a_delete_answers_with_what_finalizers_keep(either_server: EitherServer, namespace: str):
    client = either_server.admin
    vm = VirtualMachineInstance(metadata=ObjectMeta(name="v", namespace=namespace, finalizers=["example.org/hold"]))
    client.create(vm)
    left = client.delete(VirtualMachineInstance, namespace, "v")
    assert left is not None
    assert left.metadata.deletion_timestamp is not None
    last = client.patch(VirtualMachineInstance, namespace, "v", MergePatch({"metadata": {"finalizers": None}}))
    assert last.metadata.finalizers == []
    with pytest.raises(NotFound):
        client.get(VirtualMachineInstance, namespace, "v")


def test_a_pod_without_a_node_is_gone_at_once_and_one_with_a_node_stays(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(a_pod(namespace))
    assert client.delete(Pod, namespace, "p") is None
    pod = client.create(a_pod(namespace))
    either_server.bind(pod, "some-node")
    left = client.delete(Pod, namespace, "p", Preconditions(uid=pod.metadata.uid))
    assert left is not None
    assert left.metadata.deletion_timestamp is not None
    assert client.delete(Pod, namespace, "p", grace_seconds=0) is None
    with pytest.raises(NotFound):
        client.get(Pod, namespace, "p")


def test_an_object_that_breaks_its_schema_is_invalid_with_its_causes(either_server: EitherServer, namespace: str):
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "v"},
        "spec": {"running": "yes", "template": {"spec": {"domain": {"devices": {}}}}},
    }
    with pytest.raises(Invalid) as caught:
        either_server.admin.request("POST", VirtualMachine.KIND.path(namespace), body)
    assert "spec.running" in {cause.field for cause in caught.value.causes}


def test_whoever_may_not_is_forbidden(either_server: EitherServer, namespace: str):
    nobody = KubeClient.from_kubeconfig(either_server.kubeconfig_of("nobody"))
    with pytest.raises(Forbidden):
        nobody.list(ConfigMap, namespace)
    nobody.close()


def test_the_status_of_a_vm_is_written_through_its_subresource_only(either_server: EitherServer, namespace: str):
    client = either_server.admin
    spec = VirtualMachineSpec(run_strategy="Halted", template=VirtualMachineInstanceTemplate())
    client.create(VirtualMachine(metadata=ObjectMeta(name="v", namespace=namespace), spec=spec))
    body = MergePatch({"status": {"created": True}})
    assert not client.patch(VirtualMachine, namespace, "v", body).status.created
    assert client.patch(VirtualMachine, namespace, "v", body, "status").status.created


def test_the_status_of_a_vmi_is_part_of_it(either_server: EitherServer, namespace: str):
    client = either_server.admin
    client.create(VirtualMachineInstance(metadata=ObjectMeta(name="v", namespace=namespace)))
    patched = client.patch(VirtualMachineInstance, namespace, "v", MergePatch({"status": {"phase": "Pending"}}))
    assert patched.status.phase == "Pending"


def test_cluster_scoped_kinds_have_no_namespace(either_server: EitherServer):
    client = either_server.admin
    client.create(Node(metadata=ObjectMeta(name="far-away")))
    assert client.get(Node, "", "far-away").metadata.namespace == ""
    client.delete(Node, "", "far-away")
