"""From the KubeVirt object to the configuration in force: values, findings, the table, feature gates."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec.inspect as shapes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import (
    DEFAULTS,
    Configuration,
    Issue,
    LiveUpdates,
    Smbios,
    WorkloadUpdates,
)
from kvedge.resources.configuration.configuration_in_force import InForce, next_in_force
from kvedge.resources.configuration.configuration_reading import read_configuration
from kvedge.resources.configuration.configuration_table import TABLE, Effect, key_of
from kvedge.resources.configuration.feature_gates import ALWAYS_ON, PRESENT, STAGES, FeatureGates
from kvedge.resources.evacuation import EVICTION_STRATEGIES
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import EVEN_PARITY
from kvedge.resources.types.kubevirt import KubeVirt, KubeVirtSpec

# As KubeVirt's own release has it.
RELEASED = {
    "certificateRotateStrategy": {},
    "configuration": {"developerConfiguration": {"featureGates": []}},
    "customizeComponents": {},
    "imagePullPolicy": "IfNotPresent",
    "workloadUpdateStrategy": {},
}


def configured(**configuration: Any) -> JsonObject:
    return {"configuration": configuration}


def read(**configuration: Any) -> Configuration:
    reading = read_configuration(configured(**configuration))
    assert reading.of(Issue.INVALID, Issue.UNKNOWN) == ()
    return reading.configuration


def told(spec: JsonObject, *issues: Issue) -> list[str]:
    return [finding.message for finding in read_configuration(spec).of(*issues)]


# Values


@pytest.mark.parametrize(
    ("switch", "gates", "is_on"),
    [
        (None, [], False),
        ({}, [], False),
        ({"enabled": True}, [], True),
        (None, ["PersistentReservation"], True),
        ({"enabled": False}, ["PersistentReservation"], False),
    ],
    ids=["nothing", "no word", "the switch", "the gate", "the switch against the gate"],
)
def test_luns_are_reserved_by_a_switch_of_its_own_or_by_its_gate(switch: Any, gates: list[str], is_on: bool) -> None:
    found = read(
        developerConfiguration={"featureGates": gates},
        **({} if switch is None else {"persistentReservationConfiguration": switch}),
    )
    assert found.reserves_luns == is_on


def test_how_workloads_are_updated_is_read_and_what_cannot_be_is_named() -> None:
    def read_updates(**strategy: Any) -> tuple[Configuration, list[str]]:
        reading = read_configuration({"workloadUpdateStrategy": strategy})
        return reading.configuration, [finding.message for finding in reading.findings]

    methods = ["LiveMigrate", "Evict"]
    found, findings = read_updates(workloadUpdateMethods=methods, batchEvictionSize=3, batchEvictionInterval="2m30s")
    assert (found.workload_updates, findings) == (WorkloadUpdates(True, True, 3, 150.0), [])
    assert read_updates()[0].workload_updates == WorkloadUpdates(False, False, 10, 60.0)
    at = "spec.workloadUpdateStrategy"
    assert read_updates(workloadUpdateMethods=["Restart"])[1] == [
        f"{at}.workloadUpdateMethods[0]: 'Restart' is not supported; use LiveMigrate or Evict"
    ]
    assert read_updates(batchEvictionSize=-1)[1] == [f"{at}.batchEvictionSize: -1 is not between 0 and 1000"]
    assert read_updates(batchEvictionInterval="soon")[1] == [
        f'{at}.batchEvictionInterval: time: invalid duration "soon"; give one such as 1m30s'
    ]
    assert read_updates(batchEvictionInterval="-1s")[1] == [
        f"{at}.batchEvictionInterval: -1s is not between 0s and 86400s"
    ]


def test_an_empty_spec_means_kubevirts_defaults() -> None:
    reading = read_configuration({})
    assert reading.configuration == DEFAULTS
    assert reading.findings == ()
    assert (DEFAULTS.cpu_allocation_ratio, DEFAULTS.memory_overcommit_percent, DEFAULTS.vmis_per_node) == (
        10,
        100,
        1000,
    )
    assert (DEFAULTS.migrations.parallel_per_node, DEFAULTS.migrations.max_downtime_ms) == (2, 900)
    assert DEFAULTS.machine_types == {"amd64": "q35", "arm64": "virt"}


def test_the_manifest_of_a_kubevirt_release_only_has_what_does_not_apply() -> None:
    reading = read_configuration(RELEASED)
    assert reading.configuration == DEFAULTS
    assert [finding.path for finding in reading.findings] == ["spec.imagePullPolicy"]


@pytest.mark.parametrize("strategy", EVICTION_STRATEGIES)
def test_each_eviction_strategy_is_taken_over(strategy: str) -> None:
    assert read(evictionStrategy=strategy).eviction_strategy == strategy


def test_keys_that_are_given_are_taken_over() -> None:
    made = read(
        cpuModel="Nehalem",
        cpuRequest="250m",
        machineType="pc-q35-7.2",
        obsoleteCPUModels={"486": True, "Nehalem": False},
        evictionStrategy="LiveMigrateIfPossible",
        additionalGuestMemoryOverheadRatio="1.5",
        virtualMachineInstancesPerNode=40,
        virtualMachineOptions={"disableSerialConsoleLog": {}},
        network={"permitBridgeInterfaceOnPodNetwork": False, "defaultNetworkInterface": "bridge"},
        smbios={"family": "Shelf", "manufacturer": "Edge GmbH"},
        developerConfiguration={
            "memoryOvercommit": 150,
            "cpuAllocationRatio": 4,
            "nodeSelectors": {"example.com/vms": "yes"},
            "useEmulation": True,
            "logVerbosity": {"virtHandler": 5, "nodeVerbosity": {"box": 1}},
        },
        migrations={"bandwidthPerMigration": "64Mi", "allowPostCopy": True},
    )
    assert (made.cpu_model, made.cpu_request, made.machine_types["amd64"]) == ("Nehalem", "250m", "pc-q35-7.2")
    assert (made.eviction_strategy, made.memory_overhead_ratio) == ("LiveMigrateIfPossible", Fraction(3, 2))
    assert (made.vmis_per_node, made.serial_console_log, made.permit_bridge_on_pod_network) == (40, False, False)
    assert made.smbios == Smbios("Shelf", "Edge GmbH", "None")
    assert (made.memory_overcommit_percent, made.cpu_allocation_ratio, made.use_emulation) == (150, 4, True)
    assert made.node_selectors == {"example.com/vms": "yes"}
    assert made.obsolete_cpu_models == {"486"}
    assert (made.log_levels.of_handler("box"), made.log_levels.of_handler("other")) == (1, 5)
    assert (made.migrations.bandwidth, made.migrations.allow_post_copy) == (64 * 1024 * 1024, True)


def test_a_machine_without_an_architecture_belongs_to_the_one_that_has_it() -> None:
    assert read(machineType="virt-7.2").machine_types == {"amd64": "q35", "arm64": "virt-7.2"}
    assert read(emulatedMachines=["pc-q35-7*", "q35*", "virt-7*"]).machines == {
        "amd64": ("pc-q35-7*", "q35*"),
        "arm64": ("virt-7*",),
    }


def test_keys_of_an_architecture_count_unless_a_general_one_is_given() -> None:
    own = {"amd64": {"machineType": "pc-q35-7.2", "ovmfPath": "/a"}, "arm64": {"ovmfPath": "/b"}}
    made = read(architectureConfiguration={**own, "defaultArchitecture": "arm64"})
    assert (made.machine_types["amd64"], made.ovmf_paths) == ("pc-q35-7.2", {"amd64": "/a", "arm64": "/b"})
    assert made.default_architecture == "arm64"
    general = read(architectureConfiguration=own, machineType="q35", ovmfPath="/c")
    assert (general.machine_types["amd64"], general.ovmf_paths) == ("q35", {"amd64": "/c", "arm64": "/c"})


# What cannot be used


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (
            {"machineType": "abacus"},
            "machineType: abacus is not supported (allowed values: [q35* pc-q35* pc pc-i440fx*])",
        ),
        ({"machineType": "q35*"}, "machineType: q35* is not supported"),
        ({"machineType": "pc", "emulatedMachines": ["q35*"]}, "pc is not supported (allowed values: [q35*])"),
        ({"emulatedMachines": ["a b"]}, "emulatedMachines: 'a b' is no machine type"),
        ({"cpuModel": "two words"}, "cpuModel: 'two words' is no CPU model"),
        ({"cpuRequest": "much"}, "cpuRequest: 'much' is no quantity"),
        ({"cpuRequest": 0}, "cpuRequest: 0 must be more than 0"),
        (
            {"network": {"defaultNetworkInterface": "slirp"}},
            "'slirp' is not supported by this release; use bridge or masquerade",
        ),
        ({"additionalGuestMemoryOverheadRatio": "x"}, "ratio provided, x, cannot be parsed into float"),
        ({"additionalGuestMemoryOverheadRatio": "0.9"}, "ratio provided, 0.9, cannot be smaller than 1.0"),
        ({"additionalGuestMemoryOverheadRatio": "1e9"}, "cannot be parsed into float"),
        ({"virtualMachineInstancesPerNode": 0}, "0 is not between 1 and 5000"),
        ({"ovmfPath": "../firmware"}, "ovmfPath: '../firmware' is no absolute path"),
        ({"smbios": {"family": "x" * 65}}, "smbios.family: must be at most 64 printable characters"),
        ({"architectureConfiguration": {"defaultArchitecture": "vax"}}, "vax is neither amd64 nor arm64"),
        ({"developerConfiguration": {"memoryOvercommit": 0}}, "memoryOvercommit: 0 is not between 10 and 10000"),
        ({"developerConfiguration": {"nodeSelectors": {"a": "b c"}}}, "nodeSelectors[a]: a=b c is no label"),
        ({"developerConfiguration": {"logVerbosity": {"virtAPI": 10}}}, "virtAPI: 10 is not between 0 and 9"),
        (
            {"developerConfiguration": {"featureGates": ["VSOCK"], "disabledFeatureGates": ["VSOCK"]}},
            'feature gate "VSOCK" exists on both "FeatureGates" and "DisabledFeatureGates"',
        ),
        ({"migrations": {"maxDowntimeMs": 0}}, "maxDowntimeMs: 0 is not between 1 and 2000000"),
        ({"migrations": {"bandwidthPerMigration": "-1"}}, "bandwidthPerMigration: -1 must not be less than 0"),
        ({"cpuModel": 7}, "spec.configuration.cpuModel: Expected `str"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_value_that_cannot_be_used_is_named_and_its_default_holds(configuration: JsonObject, message: str) -> None:
    reading = read_configuration(configured(**configuration))
    bad = reading.of(Issue.INVALID)
    assert len(bad) == 1
    assert message in bad[0].message
    assert bad[0].path.startswith("spec.configuration.")
    assert (reading.configuration.cpu_model, reading.configuration.default_interface) == ("", "bridge")


def test_one_bad_key_takes_no_other_with_it() -> None:
    reading = read_configuration(configured(machineType="abacus", cpuModel="Nehalem"))
    assert (reading.configuration.cpu_model, reading.configuration.machine_types["amd64"]) == ("Nehalem", "q35")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*STAGES, "a"]), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted({part for key in TABLE for part in key.path.split(".")})


@given(
    st.dictionaries(
        st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4), max_size=4
    )
)
def test_whatever_is_written_there_is_a_configuration(configuration: JsonObject) -> None:
    for spec in (configuration, configured(**configuration), configured(developerConfiguration=configuration)):
        made = read_configuration(spec).configuration
        assert made.cpu_allocation_ratio >= 1
        assert made.memory_overcommit_percent >= 10
        assert made.default_interface == "bridge"


# What is unknown or does nothing


def test_an_unknown_key_is_named_with_the_nearest_one() -> None:
    assert told(configured(machinType="q35"), Issue.UNKNOWN) == [
        'unknown field "spec.configuration.machinType"; did you mean "machineType"?'
    ]
    assert told({"configuraton": {}}, Issue.UNKNOWN) == [
        'unknown field "spec.configuraton"; did you mean "configuration"?'
    ]


def test_what_is_accepted_for_later_says_so_and_why() -> None:
    assert told(configured(migrations={"utilityVolumesTimeout": 9}), Issue.NO_EFFECT) == [
        "spec.configuration.migrations.utilityVolumesTimeout is accepted for later: a migration waits for copies of"
        " disks as long as they take"
    ]


def test_a_network_for_migrations_is_in_cidr_notation() -> None:
    for text, network in (("10.5.0.9/24", "10.5.0.0/24"), ("fd00:5::/64", "fd00:5::/64"), ("", "")):
        reading = read_configuration(configured(migrations={"network": text}))
        assert (reading.configuration.migrations.network, reading.findings) == (network, ())
    for text in ("migration-net", "kubevirt/fast", "10.5.0.0/99"):
        reading = read_configuration(configured(migrations={"network": text}))
        (finding,) = reading.of(Issue.INVALID)
        assert finding.path == "spec.configuration.migrations.network"
        assert "give the network of the nodes' interfaces, such as 10.5.0.0/24" in finding.message
        assert reading.configuration.migrations.network == ""


def test_limits_of_migrations_are_in_force_and_what_they_cannot_be_yet_is_told() -> None:
    limits = {
        "parallelMigrationsPerCluster": 1,
        "parallelOutboundMigrationsPerNode": 1,
        "bandwidthPerMigration": "64Mi",
        "allowAutoConverge": True,
        "completionTimeoutPerGiB": 60,
        "progressTimeout": 60,
        "maxDowntimeMs": 300,
        "allowWorkloadDisruption": True,
    }
    unlike = {"allowPostCopy": True, "disableTLS": True}
    assert read_configuration(configured(migrations=limits)).findings == ()
    told_of = read_configuration(configured(migrations={**limits, **unlike})).of(Issue.NO_EFFECT)
    assert [item.path.rpartition(".")[2] for item in told_of] == list(unlike)
    assert read_configuration(configured(migrations=dict.fromkeys(unlike, False))).findings == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"certificateRotateStrategy": {"selfSigned": {}}},
        configured(migrations={}),
        configured(vmRolloutStrategy="Stage"),
        configured(hypervisors=[{"name": "kvm"}]),
        configured(network={"permitSlirpInterface": False}),
    ],
    ids=["an empty object", "no keys", "what is done anyhow", "the one hypervisor", "off already"],
)
def test_what_asks_for_nothing_else_is_not_told(spec: JsonObject) -> None:
    assert read_configuration(spec).findings == ()


def test_a_value_of_an_applied_key_that_does_nothing_is_told() -> None:
    assert told({"uninstallStrategy": "RemoveWorkloads"}, Issue.NO_EFFECT) == [
        "spec.uninstallStrategy RemoveWorkloads does not apply: deleting this object removes no VM"
    ]
    assert read_configuration({"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}).findings == ()


def test_changes_take_effect_at_once_unless_the_next_start_is_asked_for() -> None:
    said = read_configuration({}).configuration.live_updates
    assert (said.is_on, said.is_said) == (True, False)
    said = read_configuration(configured(vmRolloutStrategy="Stage")).configuration.live_updates
    assert (said.is_on, said.is_said) == (False, True)
    room = {"maxHotplugRatio": 2, "maxCpuSockets": 8, "maxGuest": "4Gi"}
    made = read_configuration(configured(vmRolloutStrategy="LiveUpdate", liveUpdateConfiguration=room))
    assert made.findings == ()
    assert made.configuration.live_updates == LiveUpdates(
        is_on=True, is_said=True, hotplug_ratio=2, most_sockets=8, most_memory=4 << 30
    )


def test_room_that_cannot_be_is_told_and_counts_as_not_given() -> None:
    room = {"maxHotplugRatio": 0, "maxCpuSockets": 1000, "maxGuest": "0"}
    made = read_configuration(configured(liveUpdateConfiguration=room))
    assert [finding.path for finding in made.of(Issue.INVALID)] == [
        "spec.configuration.liveUpdateConfiguration.maxHotplugRatio",
        "spec.configuration.liveUpdateConfiguration.maxCpuSockets",
        "spec.configuration.liveUpdateConfiguration.maxGuest",
    ]
    assert made.configuration.live_updates == LiveUpdates()


# Feature gates


def gates(enabled: list[str], disabled: list[str] | None = None) -> JsonObject:
    return configured(developerConfiguration={"featureGates": enabled, "disabledFeatureGates": disabled or []})


def test_gates_follow_kubevirts_rule() -> None:
    none, some = FeatureGates(), FeatureGates(frozenset({"VSOCK"}), frozenset({"Snapshot", "RebootPolicy", "GPU"}))
    assert (none.is_on("Snapshot"), some.is_on("Snapshot")) == (True, False)
    assert (none.is_on("VSOCK"), some.is_on("VSOCK")) == (False, True)
    assert some.is_on("GPU"), "what became permanent cannot be switched off"
    assert some.is_on("RebootPolicy"), "that is how kvedge works"
    assert not FeatureGates(frozenset({"Macvtap"})).is_on("Macvtap"), "what was given up is never on"
    assert not FeatureGates(frozenset({"Teleport"})).is_on("Teleport")


def test_a_gate_that_nobody_knows_is_told_with_the_nearest_one() -> None:
    assert told(gates(["LiveMigration", "HostDisks"]), Issue.UNKNOWN) == [
        'unknown feature gate "HostDisks"; did you mean "HostDisk"?'
    ]


def test_gates_without_effect_are_told() -> None:
    enabled = ["AlignCPUs", "Passt", "LiveMigration", "LiveUpdateNADRef", "Root", "NonRoot", "ImageVolume"]
    assert told(gates(enabled, ["NodeRestriction", "NUMA", "Snapshot"]), Issue.NO_EFFECT) == [
        "feature gate AlignCPUs: kvedge does not have the feature yet",
        "feature gate Passt: KubeVirt has given the feature up",
        "feature gate Root: it is about parts that only KubeVirt has",
        "feature gate NodeRestriction is always on here: a node only writes what is its own",
        "feature gate NUMA is always on, in KubeVirt too",
    ]


def test_gates_that_manifests_of_earlier_releases_name_are_not_worth_a_word() -> None:
    enabled = ["LiveMigration", "Snapshot", "VMExport", "HotplugNICs", "ExpandDisks", "VMPersistentState", "NUMA"]
    assert told(gates(enabled), Issue.NO_EFFECT) == []


def test_every_gate_that_is_named_apart_is_one_of_kubevirts() -> None:
    assert {*PRESENT, *ALWAYS_ON} <= STAGES.keys()
    assert not [gate for gate in PRESENT if STAGES[gate] == "discontinued"]


# The table


def leaves(shape: shapes.Type, at: str = "") -> Iterator[str]:
    match shape:
        case shapes.StructType():
            for field in shape.fields:
                yield from leaves(field.type, f"{at}.{field.encode_name}" if at else field.encode_name)
        case shapes.UnionType():
            yield from {leaf: None for part in shape.types for leaf in leaves(part, at)}
        case shapes.NoneType():
            return
        case _:
            yield at


LEAVES = list(dict.fromkeys(leaves(shapes.type_info(KubeVirtSpec))))


def test_the_table_says_of_every_key_what_it_does() -> None:
    assert [leaf for leaf in LEAVES if key_of(leaf) is None] == []


def test_every_entry_of_the_table_is_a_key() -> None:
    stems = {leaf.rsplit(".", count)[0] for leaf in LEAVES for count in range(leaf.count(".") + 1)}
    assert [key.path for key in TABLE if key.path not in stems] == []
    assert len({key.path for key in TABLE}) == len(TABLE)


def test_what_is_not_applied_has_a_reason() -> None:
    assert [
        key.path for key in TABLE if bool(key.reason) != (key.effect is not Effect.APPLIED or bool(key.without))
    ] == []


# Which object counts, and what stays in force


def kubevirt(uid: str, created: str, generation: int = 1, **configuration: Any) -> KubeVirt:
    metadata = ObjectMeta(name=uid, uid=uid, creation_timestamp=created, generation=generation)
    return KubeVirt(metadata=metadata, spec=configured(**configuration))


def test_the_oldest_object_counts() -> None:
    old, new = kubevirt("a", "2026-01-01T00:00:00Z", cpuModel="A"), kubevirt("b", "2026-01-02T00:00:00Z", cpuModel="B")
    assert next_in_force(InForce(), [new, old]).configuration.cpu_model == "A"
    assert next_in_force(InForce(), [new]).configuration.cpu_model == "B"
    assert next_in_force(InForce(), []).configuration == DEFAULTS


def test_a_bad_value_leaves_the_last_good_configuration_in_force() -> None:
    first = next_in_force(InForce(), [kubevirt("a", "2026-01-01T00:00:00Z", cpuModel="A")])
    bad = next_in_force(first, [kubevirt("a", "2026-01-01T00:00:00Z", 2, cpuModel="B", machineType="abacus")])
    assert (bad.configuration.cpu_model, bad.is_earlier, bad.generation) == ("A", True, 2)
    assert "abacus" in bad.findings[0].message
    good = next_in_force(bad, [kubevirt("a", "2026-01-01T00:00:00Z", 3, cpuModel="B")])
    assert (good.configuration.cpu_model, good.is_earlier) == ("B", False)


def test_who_has_seen_no_good_configuration_takes_what_can_be_used() -> None:
    found = next_in_force(InForce(), [kubevirt("a", "2026-01-01T00:00:00Z", cpuModel="B", machineType="abacus")])
    assert (found.configuration.cpu_model, found.is_earlier) == ("B", False)


def test_a_write_of_the_status_changes_nothing() -> None:
    item = kubevirt("a", "2026-01-01T00:00:00Z", cpuModel="A")
    first = next_in_force(InForce(), [item])
    assert next_in_force(first, [item]) is first


def test_the_annotation_of_parity_counts_though_no_generation_counts_it() -> None:
    item = kubevirt("a", "2026-01-01T00:00:00Z", cpuModel="A")
    first = next_in_force(InForce(), [item])
    item.metadata.annotations[EVEN_PARITY] = ""
    second = next_in_force(first, [item])
    assert (first.configuration.even_parity, second.configuration.even_parity) == (False, True)
    assert second.configuration.cpu_model == "A"
    assert next_in_force(second, [item]) is second


def test_an_annotation_says_by_what_viewers_reach_screens_and_needs_no_new_generation() -> None:
    item = kubevirt("a", "2026-01-01T00:00:00Z", cpuModel="A")
    first = next_in_force(InForce(), [item])
    for word, found in (("spice", "spice"), ("rdp", ""), ("vnc", "vnc"), ("", "")):
        item.metadata.annotations["kvedge.io/graphics"] = word
        after = next_in_force(first, [item])
        assert (after.configuration.graphics, after.configuration.cpu_model) == (found, "A")
    item.metadata.annotations["kvedge.io/graphics"] = "spice"
    assert next_in_force(InForce(), [item]).configuration.graphics == "spice"
