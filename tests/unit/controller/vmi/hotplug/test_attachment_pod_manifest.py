"""What an attachment Pod looks like."""

from __future__ import annotations

from kvedge.controller.vmi.hotplug.attachment_pod_manifest import attachment_pod, attachment_pod_name, is_ours
from kvedge.resources.configuration.support_containers import HOTPLUG_DISK
from kvedge.resources.disks.hotplug_places import CLAIM_PLACE, DEVICE_PLACE
from kvedge.resources.types.core import ResourceRequirements
from tests.support.builders import a_claim, a_vmi
from tests.unit.controller.vmi.hotplug.hotplug_world import a_launcher


def test_a_pod_has_one_name_for_its_run_volume_and_claim() -> None:
    vmi = a_vmi()
    name = attachment_pod_name(vmi, "data", "claim")
    assert name == attachment_pod_name(a_vmi(), "data", "claim")
    assert name.startswith("hp-volume-")
    assert len({name, attachment_pod_name(vmi, "data", "other"), attachment_pod_name(vmi, "da", "taclaim")}) == 3


def test_a_pod_belongs_to_its_launcher_and_runs_on_its_node_without_rights() -> None:
    vmi = a_vmi()
    pod = attachment_pod(vmi, "data", a_claim("data"), a_launcher(vmi))
    owner = pod.metadata.controller_reference()
    assert owner is not None
    assert (owner.kind, owner.uid) == ("Pod", "launcher-uid")
    assert pod.metadata.labels == {"kubevirt.io": "hotplug-disk"}
    assert "node-1" in str(pod.spec.affinity)
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"} in pod.spec.tolerations
    context = pod.spec.containers[0].security_context
    assert context is not None
    assert (context.run_as_user, context.privileged, pod.spec.automount_service_account_token) == (107, False, False)


def test_a_file_system_is_mounted_and_a_block_volume_is_a_device() -> None:
    vmi = a_vmi()
    (file_system,) = attachment_pod(vmi, "data", a_claim("data"), a_launcher(vmi)).spec.containers
    (block,) = attachment_pod(vmi, "data", a_claim("data", volume_mode="Block"), a_launcher(vmi)).spec.containers
    assert [mount.name for mount in file_system.volume_mounts if mount.mount_path == CLAIM_PLACE] == ["claim"]
    assert [device.device_path for device in block.volume_devices] == [DEVICE_PLACE]
    assert not [mount for mount in block.volume_mounts if mount.name == "claim"]


def test_the_kubevirt_object_says_what_a_pod_may_use_and_pods_of_before_stay() -> None:
    vmi, claim = a_vmi(), a_claim("data")
    told = {HOTPLUG_DISK: ResourceRequirements(requests={"cpu": "80m"}, limits={"cpu": "80m"})}
    before, after = (attachment_pod(vmi, "data", claim, a_launcher(vmi), support) for support in ({}, told))
    made = after.spec.containers[0].resources
    assert (made.requests["cpu"], made.limits["cpu"]) == ("80m", "80m")
    assert made.requests["memory"] == before.spec.containers[0].resources.requests["memory"]
    assert is_ours(before, claim)
    assert is_ours(after, claim)
