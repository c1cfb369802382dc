"""What keeps a guest on its node, by its name and in KubeVirt's order, and what is copied when it moves."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.handler.guest.migratable import (
    ALLOW_POD_BRIDGE,
    LauncherCan,
    choose_method,
    judge_migratable,
    judge_storage_migratable,
)
from kvedge.resources.codec import encode
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.types.devices import Disk, DiskTarget
from kvedge.resources.types.domain import AcpiTables, Cpu, CpuFeature, Features, FeatureState, Firmware, Hyperv
from kvedge.resources.types.vmi import TopologyHints, VirtualMachineInstance
from tests.support.builders import vmi_of, vmi_with
from tests.support.values import replace

POD = [{"name": "default", "pod": {}}]
LAN = [{"name": "lan", "multus": {"networkName": "lan"}}]
MASQUERADE = {"interfaces": [{"name": "default", "masquerade": {}}]}
BRIDGE = {"interfaces": [{"name": "default", "bridge": {}}]}
PASST = {"interfaces": [{"name": "default", "passtBinding": {}}]}
CONTAINER_DISK = {"name": "root", "containerDisk": {"image": "guest"}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "db"}}
HOTPLUGGED = {"name": "data", "persistentVolumeClaim": {"claimName": "db", "hotpluggable": True}}


def vmi(
    devices: dict[str, Any] | None = None,
    networks: list[Any] | None = None,
    volumes: list[Any] | None = None,
    modes: list[str] | None = None,
    **metadata: Any,
) -> VirtualMachineInstance:
    info = (
        [] if modes is None else [{"name": "data", "target": "", "persistentVolumeClaimInfo": {"accessModes": modes}}]
    )
    spec = {
        "domain": {"devices": devices or MASQUERADE},
        "networks": networks or POD,
        "volumes": volumes or [CONTAINER_DISK],
    }
    return vmi_with(spec, {"volumeStatus": info}, **metadata)


CASES = [
    pytest.param(vmi(BRIDGE), "InterfaceNotLiveMigratable", "masquerade", id="a bridge on the pod network"),
    pytest.param(vmi(PASST), "InterfaceNotLiveMigratable", "masquerade", id="passt"),
    pytest.param(
        vmi({"interfaces": [{"name": "default", "binding": {"name": "x"}}]}),
        "InterfaceNotLiveMigratable",
        "migratable plugin",
        id="a plugin on the pod network",
    ),
    pytest.param(
        vmi({**MASQUERADE, "hostDevices": [{"name": "a"}]}), "HostDeviceNotLiveMigratable", "PCI", id="a host device"
    ),
    pytest.param(vmi({**MASQUERADE, "gpus": [{"name": "a"}]}), "HostDeviceNotLiveMigratable", "GPU", id="a GPU"),
    pytest.param(
        vmi({**MASQUERADE, "filesystems": [{"name": "a"}]}), "VirtIOFSNotLiveMigratable", "filesystems", id="a share"
    ),
    pytest.param(
        vmi(volumes=[CLAIM]), "DisksNotLiveMigratable", "determine if PVC db", id="a claim nobody has told of"
    ),
    pytest.param(
        vmi(volumes=[CLAIM], modes=["ReadWriteOnce"]),
        "DisksNotLiveMigratable",
        "PVC db is not",
        id="a claim of one node",
    ),
    pytest.param(
        vmi(volumes=[{"name": "data", "dataVolume": {"name": "dv"}}], modes=["ReadWriteOnce"]),
        "DisksNotLiveMigratable",
        "PVC dv is not",
        id="a DataVolume of one node",
    ),
    pytest.param(
        vmi(volumes=[{"name": "host", "hostDisk": {"path": "/a", "type": "Disk"}}]),
        "DisksNotLiveMigratable",
        "non-shared HostDisk",
        id="a disk of the host",
    ),
    pytest.param(
        vmi(volumes=[{"name": "data", "dataVolume": {"name": "dv", "hotpluggable": True}}], modes=["ReadWriteOnce"]),
        "DisksNotLiveMigratable",
        "PVC dv is not",
        id="a hotplugged claim of one node",
    ),
    pytest.param(
        vmi(
            {**MASQUERADE, "disks": [{"name": "data", "lun": {"reservation": True}}]}, None, [CLAIM], ["ReadWriteMany"]
        ),
        "PersistentReservationNotLiveMigratable",
        "LUN data",
        id="a reserved LUN",
    ),
]


@pytest.mark.parametrize(("given", "reason", "words"), CASES)
def test_what_keeps_a_guest_on_its_node_is_named(given: VirtualMachineInstance, reason: str, words: str) -> None:
    found = judge_migratable(given, LauncherCan())
    assert (found.type, found.status, found.reason) == ("LiveMigratable", "False", reason)
    assert words in found.message


MOVING = [
    pytest.param(vmi(), id="masquerade and a container disk"),
    pytest.param(vmi(BRIDGE, annotations={ALLOW_POD_BRIDGE: ""}), id="a bridge that the user vouches for"),
    pytest.param(vmi({"interfaces": [{"name": "lan", "bridge": {}}]}, LAN), id="a bridge on the LAN"),
    pytest.param(vmi(volumes=[CLAIM], modes=["ReadWriteMany"]), id="a claim of many nodes"),
    pytest.param(vmi(volumes=[HOTPLUGGED], modes=["ReadWriteMany"]), id="a hotplugged claim of many nodes"),
    pytest.param(vmi(volumes=[HOTPLUGGED]), id="a hotplugged claim that has not come"),
    pytest.param(
        vmi(volumes=[{"name": "host", "hostDisk": {"path": "/a", "type": "Disk", "shared": True}}]), id="a shared disk"
    ),
    pytest.param(
        vmi(
            volumes=[{"name": "data", "ephemeral": {"persistentVolumeClaim": {"claimName": "db"}}}],
            modes=["ReadOnlyMany"],
        ),
        id="a layer over a claim that many read",
    ),
]


UNTOLD = "Unable to determine if PVC persistent-state-for-web is shared"


@pytest.mark.parametrize(
    ("modes", "status", "words"),
    [(None, "False", UNTOLD), (["ReadWriteOnce"], "True", ""), (["ReadWriteMany"], "True", "")],
)
@pytest.mark.parametrize(
    "domain", [{"devices": {"tpm": {"persistent": True}}}, {"firmware": {"bootloader": {"efi": {"persistent": True}}}}]
)
def test_the_state_of_a_tpm_and_of_firmware_moves_once_its_claim_is_known(
    domain: dict[str, Any], modes: list[str] | None, status: str, words: str
) -> None:
    info = {"name": STATE_VOLUME, "target": "", "persistentVolumeClaimInfo": {"accessModes": modes}}
    given = vmi_with({"domain": domain}, {"volumeStatus": [info] if modes else []}, name="web")
    for judge in (judge_migratable, judge_storage_migratable):
        found = judge(given, LauncherCan())
        assert (found.status, found.reason) == (status, "" if status == "True" else "DisksNotLiveMigratable")
        assert words in found.message


def test_a_tpm_that_begins_empty_keeps_no_guest_on_its_node() -> None:
    assert judge_migratable(vmi({**MASQUERADE, "tpm": {}}), LauncherCan()).status == "True"


@pytest.mark.parametrize("given", MOVING)
def test_what_can_move_says_so(given: VirtualMachineInstance) -> None:
    found = judge_migratable(given, LauncherCan())
    assert (found.status, found.reason, found.message) == ("True", "", "")


def test_a_guest_with_cpus_for_itself_stays_on_its_node() -> None:
    found = vmi()
    found.spec.domain.cpu = Cpu(dedicated_cpu_placement=True)
    for judge in (judge_migratable, judge_storage_migratable):
        assert judge(found, LauncherCan()).reason == "DedicatedCPUNotLiveMigratable"


@pytest.mark.parametrize(
    ("policy", "is_kept"), [("", True), ("require", True), ("force", True), ("optional", False), ("disable", False)]
)
def test_a_guest_that_counts_on_its_nodes_clock_stays(policy: str, *, is_kept: bool) -> None:
    found = vmi()
    found.spec.domain.cpu = Cpu(features=[CpuFeature(name="invtsc", policy=policy), CpuFeature(name="aes")])
    for judge in (judge_migratable, judge_storage_migratable):
        assert judge(found, LauncherCan()).reason == ("NoTSCFrequencyNotLiveMigratable" if is_kept else "")
    found.status.topology_hints = TopologyHints(tsc_frequency=2399998000)
    assert judge_migratable(found, LauncherCan()).status == "True"


@pytest.mark.parametrize("enabled", [None, True, False])
def test_a_guest_that_hyperv_tells_of_its_counter_moves_once_it_was_told_a_frequency(*, enabled: bool | None) -> None:
    found = vmi()
    found.spec.domain.features = Features(hyperv=Hyperv(reenlightenment=FeatureState(enabled=enabled)))
    judged = judge_migratable(found, LauncherCan())
    if enabled is False:
        assert judged.status == "True"
        return
    assert judged.reason == "NoTSCFrequencyNotLiveMigratable"
    assert judged.message.startswith("HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed")
    assert judged.message.endswith(
        "restart the VM where the node has the label cpu-timer.node.kubevirt.io/tsc-frequency"
    )
    found.status.topology_hints = TopologyHints(tsc_frequency=2399998000)
    assert judge_migratable(found, LauncherCan()).status == "True"


@pytest.mark.parametrize(("enabled", "is_kept"), [(None, True), (True, True), (False, False)])
def test_a_guest_that_sees_all_of_its_nodes_hyperv_stays(enabled: bool | None, *, is_kept: bool) -> None:
    found = vmi()
    found.spec.domain.features = Features(hyperv_passthrough=FeatureState(enabled=enabled))
    for judge in (judge_migratable, judge_storage_migratable):
        assert judge(found, LauncherCan()).reason == ("HypervPassthroughNotLiveMigratable" if is_kept else "")


def test_a_guest_that_hooks_made_stays() -> None:
    found = vmi()
    found.metadata.annotations["hooks.kubevirt.io/hookSidecars"] = '[{"image": "hook"}]'
    for judge in (judge_migratable, judge_storage_migratable):
        assert judge(found, LauncherCan()).reason == "HookSidecarsNotLiveMigratable"


PLUGGED = {"interfaces": [{"name": "default", "binding": {"name": "site"}}]}
ON_LAN = {"interfaces": [{"name": "lan", "binding": {"name": "site"}}]}
STAYS, MOVES = BindingPlugin("managedTap"), BindingPlugin("managedTap", migrates=True)
MADE = BindingPlugin("", sidecar_image="site:1")


@pytest.mark.parametrize(
    ("given", "plugin", "words"),
    [
        (vmi(PLUGGED), STAYS, "a migratable plugin to connect to the pod network"),
        (vmi(PLUGGED), MOVES, ""),
        (vmi(ON_LAN, LAN), STAYS, ""),
        (vmi(ON_LAN, LAN), MADE, "interface lan is made by the sidecar of a binding plugin without `migration`"),
        (vmi(ON_LAN, LAN), replace(MADE, migrates=True), ""),
    ],
    ids=["it stays", "it moves", "a tap on the LAN", "a sidecar that stays", "a sidecar that moves"],
)
def test_a_plugin_says_whether_its_guests_move(
    given: VirtualMachineInstance, plugin: BindingPlugin, words: str
) -> None:
    for judge in (judge_migratable, judge_storage_migratable):
        found = judge(given, LauncherCan(), {"site": plugin})
        assert (found.reason, found.status) == (("InterfaceNotLiveMigratable", "False") if words else ("", "True"))
        assert words in found.message


def test_the_first_obstacle_is_told_and_an_old_launcher_last() -> None:
    both = vmi(BRIDGE, volumes=[CLAIM])
    assert judge_migratable(both, LauncherCan(move=False)).reason == "InterfaceNotLiveMigratable"
    old = judge_migratable(vmi(), LauncherCan(move=False))
    assert old.reason == "NotMigratable"
    assert "restart the VM" in old.message


@pytest.mark.parametrize(
    ("given", "method"),
    [
        pytest.param(vmi(), "BlockMigration", id="a container disk is written to"),
        pytest.param(
            vmi({**MASQUERADE, "disks": [{"name": "root", "cdrom": {}}]}), "LiveMigration", id="a cdrom is not"
        ),
        pytest.param(
            vmi({**MASQUERADE, "disks": [{"name": "root", "cdrom": {"readonly": False}}]}),
            "LiveMigration",
            id="whatever its VMI says",
        ),
        pytest.param(vmi(volumes=[CLAIM], modes=["ReadWriteMany"]), "LiveMigration", id="a claim is there already"),
        pytest.param(
            vmi(volumes=[{"name": "data", "ephemeral": {"persistentVolumeClaim": {"claimName": "db"}}}]),
            "BlockMigration",
            id="a layer is not",
        ),
    ],
)
def test_what_is_copied_makes_the_method(given: VirtualMachineInstance, method: str) -> None:
    assert choose_method(given) == method


def test_a_table_in_a_secret_is_no_disk_to_copy() -> None:
    given = vmi(volumes=[{"name": "licence", "secret": {"secretName": "s"}}])
    given.spec.domain.firmware = Firmware(acpi=AcpiTables(slic_name_ref="licence"))
    assert choose_method(given) == "LiveMigration"
    given.spec.domain.devices.disks = [Disk(name="licence", disk=DiskTarget())]
    assert choose_method(given) == "BlockMigration"


def moved_along(disk: dict[str, Any], **volume: Any) -> VirtualMachineInstance:
    """A VMI whose volume `data` goes to another claim."""
    found = encode(vmi({**MASQUERADE, "disks": [{"name": "data", **disk}]}, volumes=[{**CLAIM, **volume}], modes=[]))
    moved = {"volumeName": "data", "sourcePVCInfo": {"claimName": "db"}, "destinationPVCInfo": {"claimName": "other"}}
    found["status"]["migratedVolumes"] = [moved]
    return vmi_of(found)


def test_a_disk_that_moves_along_needs_no_shared_claim() -> None:
    given = moved_along({"disk": {}})
    assert judge_migratable(given, LauncherCan()).status == "True"
    assert choose_method(given) == "BlockMigration"


@pytest.mark.parametrize(
    "disk",
    [{"cdrom": {}}, {"lun": {}}, {"disk": {"readonly": True}}, {"disk": {}, "shareable": True}],
    ids=["a drive", "a LUN", "read only", "of several guests"],
)
def test_a_disk_that_the_guest_alone_does_not_write_is_not_copied(disk: dict[str, Any]) -> None:
    found = judge_migratable(moved_along(disk), LauncherCan())
    assert (found.status, found.reason) == ("False", "DisksNotLiveMigratable")
    assert "volume data cannot move to another claim" in found.message


def test_a_claim_that_is_not_shared_keeps_no_guest_whose_disks_would_move_along() -> None:
    local = vmi(volumes=[CLAIM], modes=["ReadWriteOnce"])
    assert judge_migratable(local, LauncherCan()).status == "False"
    assert judge_storage_migratable(local, LauncherCan()).status == "True"
    assert judge_storage_migratable(local, LauncherCan(move=False)).reason == "NotMigratable"
    reserved = vmi({**MASQUERADE, "disks": [{"name": "data", "lun": {"reservation": True}}]}, volumes=[CLAIM])
    for given, reason in ((reserved, "PersistentReservation"), (vmi(BRIDGE), "Interface")):
        assert judge_storage_migratable(given, LauncherCan()).reason == f"{reason}NotLiveMigratable"


def test_virtual_functions_are_given_back_before_a_guest_moves_where_its_launcher_can_do_that() -> None:
    given = vmi({"interfaces": [{"name": "lan", "sriov": {}}]}, LAN)
    old = LauncherCan(release_functions=False)
    for judge in (judge_migratable, judge_storage_migratable):
        assert judge(given, LauncherCan()).status == "True"
        found = judge(given, old)
        assert found.reason == "HostDeviceNotLiveMigratable"
        assert "interface lan" in (found.message or "")
        assert "restart the VM" in (found.message or "")
        assert judge(vmi(), old).status == "True"


def test_a_nic_of_a_claim_keeps_a_guest_on_its_node() -> None:
    claimed = [{"name": "lan", "resourceClaim": {"claimName": "nics", "requestName": "port"}}]
    given = vmi({"interfaces": [{"name": "lan", "sriov": {}}]}, claimed)
    for judge in (judge_migratable, judge_storage_migratable):
        found = judge(given, LauncherCan())
        assert (found.status, found.reason) == ("False", "HostDeviceNotLiveMigratable")
        assert "network lan is a device of a claim" in (found.message or "")


@pytest.mark.parametrize(("kind", "word"), [("sev", "SEV"), ("snp", "SEV"), ("tdx", "TDX")])
def test_an_encrypted_guest_stays(kind: str, word: str) -> None:
    given = vmi_with({"domain": {"devices": MASQUERADE, "launchSecurity": {kind: {}}}, "networks": POD})
    for judge in (judge_migratable, judge_storage_migratable):
        found = judge(given, LauncherCan())
        assert (found.status, found.reason, found.message) == ("False", f"{word}NotLiveMigratable", f"VMI uses {word}")
