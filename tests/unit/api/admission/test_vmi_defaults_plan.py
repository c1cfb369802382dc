"""What a VMI gets that its author left out."""

from __future__ import annotations

import copy
from typing import Any
from uuid import UUID

import jsonpatch
import pytest

from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.vmi_defaults_plan import new_vmi, with_defaults
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import Configuration, LiveUpdates
from kvedge.resources.names import GROWTH_ROOM, VM_GENERATION
from tests.support.builders import put, small_vmi, vm_of
from tests.support.reviews import request

NOW = "2026-01-02T03:04:05Z"
AMD = Cluster("amd64")
ARM = Cluster("arm64")


def defaults(changes: dict[str, Any], cluster: Cluster = AMD) -> JsonObject:
    spec = small_vmi()["spec"]
    for path, value in changes.items():
        put(spec, path, value)
    return with_defaults(spec, cluster)


def at(document: Any, path: str) -> Any:
    for name in path.replace("[", ".[").split("."):
        document = document[int(name[1:-1])] if name.startswith("[") else document[name]
    return document


STAGED = Cluster("amd64", Configuration(live_updates=LiveUpdates(is_on=False)))
LIVE = Cluster("amd64", Configuration(live_updates=LiveUpdates(is_on=True)))
DISK = "domain.devices.disks[0]"


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 4),
        ({"domain.cpu.sockets": 3}, 12),
        ({"domain.cpu.maxSockets": 2}, 2),
        ({"domain.cpu.sockets": 2, "domain.cpu.cores": 100}, 5),
        ({"domain.cpu.sockets": 512}, 512),
    ],
    ids=["one", "by the ratio", "as the author says", "as far as the machine goes", "no more than a guest can have"],
)
def test_a_vmi_has_room_for_sockets_where_changes_are_rolled_out_live(changes: JsonObject, most: int) -> None:
    assert defaults(changes, LIVE)["domain"]["cpu"]["maxSockets"] == most


def test_the_cluster_may_name_the_room_and_arm_has_none() -> None:
    named = Configuration(live_updates=LiveUpdates(is_on=True, most_sockets=6))
    assert defaults({}, Cluster("amd64", named))["domain"]["cpu"]["maxSockets"] == 6
    assert defaults({"domain.cpu.sockets": 8}, Cluster("amd64", named))["domain"]["cpu"]["maxSockets"] == 8
    assert "maxSockets" not in defaults({}, Cluster("arm64", named))["domain"]["cpu"]
    # More than any guest can have is for the scheduler to refuse.
    assert "maxSockets" not in defaults({"domain.cpu.sockets": 1000}, Cluster("amd64", named))["domain"]["cpu"]


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"domain.memory": {"guest": "1Gi"}}, "4Gi"),
        ({"domain.memory": {"guest": "2Gi", "maxGuest": "3Gi"}}, "3Gi"),
        ({"domain.memory": {}, "domain.resources": {"requests": {"memory": "1Gi"}}}, "4Gi"),
        ({"domain.memory": {"guest": "1000Mi"}}, None),
        ({"domain.memory": {"guest": "1025Mi"}}, None),
        ({"domain.memory": {"guest": "1Gi", "hugepages": {"pageSize": "2Mi"}}}, None),
        ({"domain.memory": {"guest": "many"}}, None),
    ],
    ids=["by the ratio", "as the author says", "of a request", "too little", "no blocks", "huge pages", "no quantity"],
)
def test_a_vmi_has_room_for_memory_where_it_can_have_some(changes: JsonObject, most: str | None) -> None:
    assert defaults(changes, LIVE)["domain"]["memory"].get("maxGuest") == most
    written = changes["domain.memory"].get("maxGuest")
    assert defaults(changes, STAGED)["domain"]["memory"].get("maxGuest") == written


def test_a_vm_of_before_keeps_its_machine_until_somebody_asks_for_room() -> None:
    """Sockets, a NUMA cell and a device more are another machine: an upgrade of ours alone must not make them."""
    vmi = small_vmi()
    put(vmi["spec"], "domain.memory", {"guest": "1Gi"})
    said = Cluster("amd64", Configuration(live_updates=LiveUpdates(is_said=True)))

    def room(cluster: Cluster, *annotations: str) -> tuple[bool, bool]:
        vmi["metadata"]["annotations"] = dict.fromkeys(annotations, "1")
        domain = new_vmi(copy.deepcopy(vmi), cluster, NOW, "one")["spec"]["domain"]
        return "maxSockets" in domain["cpu"], "maxGuest" in domain["memory"]

    assert room(AMD) == (True, True), "a VMI of its own"
    assert room(AMD, VM_GENERATION) == (False, False), "of a VM of before"
    assert room(said, VM_GENERATION) == (True, True), "somebody wants them live"
    assert room(AMD, VM_GENERATION, GROWTH_ROOM) == (True, True), "of a new VM"
    assert room(STAGED, VM_GENERATION, GROWTH_ROOM) == (False, False)


def test_the_cluster_may_name_the_room_for_memory_and_arm_has_none() -> None:
    named, changes = (
        Configuration(live_updates=LiveUpdates(is_on=True, most_memory=6 << 30)),
        {"domain.memory": {"guest": "1Gi"}},
    )
    assert defaults(changes, Cluster("amd64", named))["domain"]["memory"]["maxGuest"] == "6Gi"
    assert "maxGuest" not in defaults({"domain.memory": {"guest": "8Gi"}}, Cluster("arm64", named))["domain"]["memory"]
    # As much as it starts with is no room.
    assert "maxGuest" not in defaults({"domain.memory": {"guest": "8Gi"}}, Cluster("amd64", named))["domain"]["memory"]


def test_a_guest_with_cpus_for_itself_has_no_room_and_no_part_of_a_cpu() -> None:
    under = Cluster("amd64", Configuration(live_updates=LiveUpdates(is_on=True), cpu_request="300m"))
    made = defaults({"domain.cpu.dedicatedCpuPlacement": True, "domain.memory": {"guest": "1Gi"}}, under)["domain"]
    assert "maxSockets" not in made["cpu"]
    assert "maxGuest" not in made["memory"]
    assert "cpu" not in made.get("resources", {}).get("requests", {})


@pytest.mark.parametrize(
    ("isolated", "parity", "copied"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_vmi_gets_the_clusters_word_on_parity(isolated: bool, parity: bool, copied: bool) -> None:
    vmi = small_vmi()
    put(vmi["spec"], "domain.cpu", {"dedicatedCpuPlacement": True, "isolateEmulatorThread": isolated})
    made = new_vmi(vmi, Cluster("amd64", Configuration(even_parity=parity)), NOW, "one")
    assert ("alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity" in made["metadata"]["annotations"]) is copied


@pytest.mark.parametrize(
    ("written", "kept"),
    [(None, {}), ({"bootloader": {"bios": {}}}, {"bootloader": {"bios": {}}}), ({"uuid": ""}, {})],
    ids=["without firmware", "with firmware of its own", "with an empty one"],
)
def test_a_vmi_without_a_vm_has_a_firmware_uuid_that_no_other_has(written: JsonObject | None, kept: JsonObject) -> None:
    vmi = small_vmi()
    put(vmi["spec"], "domain.firmware", written)
    made = [new_vmi(vmi, Cluster("amd64", Configuration()), NOW, uid) for uid in ("one", "one", "another")]
    first, again, other = (entry["spec"]["domain"]["firmware"] for entry in made)
    assert str(UUID(first["uuid"])) == first["uuid"]
    assert first == again == {**kept, "uuid": first["uuid"]}
    assert first["uuid"] != other["uuid"]


def test_a_firmware_uuid_that_is_given_stays() -> None:
    vmi, given = small_vmi(), "5d307ca9-b3ef-428c-8861-06e72d69f223"
    put(vmi["spec"], "domain.firmware", {"uuid": given})
    assert new_vmi(vmi, Cluster("amd64", Configuration()), NOW, "one")["spec"]["domain"]["firmware"]["uuid"] == given


# What is changed, where to look, what is found there.
CASES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "architecture": ({}, "architecture", "amd64"),
    "machine": ({}, "domain.machine.type", "q35"),
    "a probe's numbers": (
        {"livenessProbe": {"guestAgentPing": {}, "failureThreshold": 5, "periodSeconds": 0}},
        "livenessProbe",
        {"guestAgentPing": {}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 5},
    ),
    "a probe's page": (
        {"readinessProbe": {"httpGet": {"port": 80}}},
        "readinessProbe.httpGet",
        {"port": 80, "path": "/", "scheme": "HTTP"},
    ),
    "a probe that is none stays for the rules": ({"readinessProbe": "x"}, "readinessProbe", "x"),
    "a machine that is given stays": ({"domain.machine.type": "pc"}, "domain.machine.type", "pc"),
    "a CPU limit is a request": (
        {"domain.resources.limits.cpu": 2},
        "domain.resources.requests",
        {"cpu": 2},
    ),
    "memory from the request": (
        {"domain.memory": None, "domain.resources.requests.memory": "1Gi"},
        "domain.memory.guest",
        "1Gi",
    ),
    "memory from the limit": (
        {"domain.memory": None, "domain.resources.limits.memory": "1Gi"},
        "domain.memory.guest",
        "1Gi",
    ),
    "one CPU": ({}, "domain.cpu", {"cores": 1, "sockets": 1, "maxSockets": 4, "threads": 1, "model": "host-model"}),
    "sockets from the limit, rounded up": ({"domain.resources.limits.cpu": "2500m"}, "domain.cpu.sockets", 3),
    "zeros count as one beside another number": (
        {"domain.cpu.cores": 4},
        "domain.cpu",
        {"cores": 4, "sockets": 1, "maxSockets": 4, "threads": 1, "model": "host-model"},
    ),
    "a moving tag is always pulled": (
        {"volumes[0].containerDisk.image": "registry:5000/demo"},
        "volumes[0].containerDisk.imagePullPolicy",
        "Always",
    ),
    "latest is always pulled": (
        {"volumes[0].containerDisk.image": "demo:latest"},
        "volumes[0].containerDisk.imagePullPolicy",
        "Always",
    ),
    "a version is pulled once": ({}, "volumes[0].containerDisk.imagePullPolicy", "IfNotPresent"),
    "a digest is pulled once": (
        {"volumes[0].containerDisk.image": "demo@sha256:0"},
        "volumes[0].containerDisk.imagePullPolicy",
        "IfNotPresent",
    ),
    "no eviction": ({}, "evictionStrategy", "None"),
    "a network when nothing is said": (
        {"networks": [], "domain.devices.interfaces": []},
        "domain.devices.interfaces",
        [{"name": "default", "bridge": {}, "model": "virtio"}],
    ),
    "no network when none is wanted": (
        {"networks": [], "domain.devices.interfaces": [], "domain.devices.autoattachPodInterface": False},
        "networks",
        [],
    ),
    "a disk for a volume": (
        {"volumes[1]": {"name": "more", "emptyDisk": {"capacity": "1Gi"}}},
        "domain.devices.disks[1]",
        {"name": "more", "disk": {"bus": "sata"}},
    ),
    "the bus that every guest knows": ({f"{DISK}.disk": {}}, f"{DISK}.disk.bus", "sata"),
    "a disk without target": ({DISK: {"name": "root"}}, f"{DISK}.disk", {"bus": "sata"}),
    "a CD-ROM": (
        {DISK: {"name": "root", "cdrom": {}}},
        f"{DISK}.cdrom",
        {"bus": "sata", "readonly": True, "tray": "closed"},
    ),
    "the model of a NIC": ({}, "domain.devices.interfaces[0].model", "virtio"),
    "the protocol of a port": (
        {"domain.devices.interfaces[0].ports": [{"port": 80}]},
        "domain.devices.interfaces[0].ports[0].protocol",
        "TCP",
    ),
    "a tablet": (
        {"domain.devices.inputs": [{"name": "t"}]},
        "domain.devices.inputs[0]",
        {"name": "t", "bus": "usb", "type": "tablet"},
    ),
    "a watchdog": (
        {"domain.devices.watchdog": {"name": "w"}},
        "domain.devices.watchdog.i6300esb.action",
        "reset",
    ),
    "ACPI": ({}, "domain.features.acpi.enabled", True),
    "ACPI that is off stays off": ({"domain.features.acpi.enabled": False}, "domain.features.acpi.enabled", False),
    "a feature that is named is on": ({"domain.features.smm": {}}, "domain.features.smm.enabled", True),
    "spinlocks": (
        {"domain.features.hyperv.spinlocks": {}},
        "domain.features.hyperv.spinlocks",
        {"enabled": True, "spinlocks": 4096},
    ),
    "what a hyper-v feature needs": (
        {"domain.features.hyperv": {"synictimer": {}}},
        "domain.features.hyperv",
        {"synictimer": {"enabled": True}, "synic": {"enabled": True}, "vpindex": {"enabled": True}},
    ),
    "a timer that is named is there": ({"domain.clock.timer.rtc": {}}, "domain.clock.timer.rtc.present", True),
    "a timer that is off stays off": (
        {"domain.clock.timer.hpet.present": False},
        "domain.clock.timer.hpet.present",
        False,
    ),
    "the policy of a CPU feature": (
        {"domain.cpu.features": [{"name": "vmx"}]},
        "domain.cpu.features[0].policy",
        "require",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_default_is_filled_in(case: str) -> None:
    changes, where, expected = CASES[case]
    assert at(defaults(changes), where) == expected


ON_ARM: dict[str, tuple[dict[str, Any], str, Any]] = {
    "machine": ({}, "domain.machine.type", "virt"),
    "CPU": ({}, "domain.cpu.model", "host-passthrough"),
    "firmware": ({}, "domain.firmware.bootloader", {"efi": {"secureBoot": False}}),
    "no secure boot": ({"domain.firmware.bootloader": {"efi": {}}}, "domain.firmware.bootloader.efi.secureBoot", False),
    "disk": ({f"{DISK}.disk": {}}, f"{DISK}.disk.bus", "virtio"),
    "CD-ROM": ({DISK: {"name": "root", "cdrom": {}}}, f"{DISK}.cdrom.bus", "scsi"),
}


@pytest.mark.parametrize("case", ON_ARM)
def test_arm64_has_defaults_of_its_own(case: str) -> None:
    changes, where, expected = ON_ARM[case]
    assert at(defaults(changes, ARM), where) == expected


@pytest.mark.parametrize("case", CASES)
def test_defaults_change_nothing_the_second_time(case: str) -> None:
    once = defaults(CASES[case][0])
    assert with_defaults(once, AMD) == once


def test_the_author_s_document_is_not_touched() -> None:
    spec = small_vmi()["spec"]
    before = copy.deepcopy(spec)
    with_defaults(spec, AMD)
    assert spec == before


def mutated(document: JsonObject, old: JsonObject | None = None, **who: Any) -> JsonObject:
    return jsonpatch.apply_patch(document, plan_mutation(request(document, old, **who), AMD, NOW))


def test_a_new_vmi_gets_phase_finalizer_and_annotation() -> None:
    vmi = mutated(small_vmi())
    assert vmi["status"] == {
        "phase": "Pending",
        "phaseTransitionTimestamps": [{"phase": "Pending", "phaseTransitionTimestamp": NOW}],
        "runtimeUser": 107,
        "memory": {"guestAtBoot": "64Mi", "guestCurrent": "64Mi", "guestRequested": "64Mi"},
        "currentCPUTopology": {"cores": 1, "sockets": 1, "threads": 1},
    }
    assert vmi["metadata"]["finalizers"] == ["kubevirt.io/foregroundDeleteVirtualMachine"]
    assert vmi["metadata"]["annotations"] == {"kubevirt.io/pci-topology-version": "v3"}


def test_viewers_reach_a_new_vmi_as_the_kubevirt_object_says_where_it_says_nothing() -> None:
    cluster, name = Cluster("amd64", Configuration(graphics="spice")), "kvedge.io/graphics"

    def made(vmi: JsonObject) -> str | None:
        patched = jsonpatch.apply_patch(vmi, plan_mutation(request(vmi), cluster, NOW))
        found: str | None = patched["metadata"]["annotations"].get(name)
        return found

    assert made(small_vmi()) == "spice"
    assert made(small_vmi(domain__devices__autoattachGraphicsDevice=False)) is None
    says = small_vmi()
    says["metadata"]["annotations"] = {name: "vnc"}
    assert made(says) == "vnc"


def test_a_status_that_the_author_wrote_is_ours() -> None:
    vmi = small_vmi()
    vmi["status"] = {"phase": "Running", "nodeName": "evil"}
    assert "nodeName" not in mutated(vmi)["status"]


@pytest.mark.parametrize(
    ("who", "kept"),
    [({}, False), ({"groups": ["kvedge:apis"]}, False), ({"groups": ["kvedge:controllers"]}, True)],
    ids=["a user", "the api role", "the controller"],
)
def test_the_revision_that_a_vmi_was_made_from_is_the_controllers_to_say(who: dict[str, Any], kept: bool) -> None:
    vmi = small_vmi()
    vmi["status"] = {"virtualMachineRevisionName": "revision-start-vm-1-2", "nodeName": "evil"}
    status = mutated(vmi, **who)["status"]
    assert status.get("virtualMachineRevisionName") == ("revision-start-vm-1-2" if kept else None)
    assert (status["phase"], "nodeName" in status) == ("Pending", False)


def test_fields_that_no_type_has_survive_for_the_rule_that_refuses_them() -> None:
    assert mutated(small_vmi(domain__devices__disk=[1]))["spec"]["domain"]["devices"]["disk"] == [1]


def test_a_document_of_another_shape_is_left_for_the_schema() -> None:
    vmi = small_vmi(domain__cpu="fast")
    assert plan_mutation(request(vmi), AMD, NOW) == []


def test_a_vm_keeps_platform_and_topology_version() -> None:
    vm = mutated(vm_of(small_vmi()))
    template = vm["spec"]["template"]
    assert template["spec"]["architecture"] == "amd64"
    assert template["spec"]["domain"]["machine"] == {"type": "q35"}
    assert template["metadata"]["annotations"] == {"kubevirt.io/pci-topology-version": "v3", GROWTH_ROOM: "v1"}
    # Who replaces it by the file that it was made from replaces no machine.
    replaced = mutated(vm_of(small_vmi()), vm)
    assert replaced["spec"]["template"]["metadata"]["annotations"] == {GROWTH_ROOM: "v1"}


def test_a_copy_of_a_vm_of_before_has_its_machine() -> None:
    copied = vm_of(small_vmi())
    copied["spec"]["template"]["metadata"] = {"annotations": {"kubevirt.io/pci-topology-version": "v3"}}
    assert GROWTH_ROOM not in mutated(copied)["spec"]["template"]["metadata"]["annotations"]


def test_nothing_else_is_written_into_what_the_user_keeps_in_a_file() -> None:
    before = vm_of(small_vmi())
    after = mutated(before)["spec"]["template"]["spec"]
    del after["architecture"]
    del after["domain"]["machine"]
    assert after == before["spec"]["template"]["spec"]


def test_a_users_status_is_put_back() -> None:
    old = mutated(small_vmi())
    new = copy.deepcopy(old)
    new["status"]["phase"] = "Running"
    assert mutated(new, old) == old


@pytest.mark.parametrize("group", ["kvedge:controllers", "kvedge:handlers"])
def test_a_roles_status_is_kept(group: str) -> None:
    old = mutated(small_vmi())
    new = copy.deepcopy(old)
    new["status"]["phase"] = "Running"
    assert mutated(new, old, groups=[group]) == new


def test_a_group_name_as_a_user_name_makes_no_role() -> None:
    old = mutated(small_vmi())
    new = copy.deepcopy(old)
    new["status"]["phase"] = "Running"
    assert mutated(new, old, user="kvedge:controllers") == old
