"""What the KubeVirt object's status says, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.kubevirt.kubevirt_status import (
    Health,
    Release,
    Told,
    events_of,
    plan_status,
    status_patch,
)
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes
from kvedge.resources.configuration.configuration_in_force import InForce, next_in_force
from kvedge.resources.configuration.configuration_reading import read_configuration
from kvedge.resources.meta import Condition, ObjectMeta, condition
from kvedge.resources.types.kubevirt import KubeVirt, KubeVirtStatus
from tests.support.builders import CONFIG, a_vmi
from tests.support.values import replace

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RELEASE = Release("1.2.3", "amd64")
WELL = Health()
AWAY = Health(api_answers=False, has_node=False)


def kubevirt(status: KubeVirtStatus | None = None, **configuration: Any) -> KubeVirt:
    metadata = ObjectMeta(name="kubevirt", namespace="kvedge-system", uid="u", generation=4)
    return KubeVirt(metadata=metadata, spec={"configuration": configuration}, status=status or KubeVirtStatus())


def status_of(item: KubeVirt, health: Health = WELL, before: InForce | None = None) -> KubeVirtStatus:
    return plan_status(item, next_in_force(before or InForce(), [item]), health, RELEASE, NOW)


def said(status: KubeVirtStatus, type_: str) -> tuple[str, str, str]:
    found = condition(status.conditions, type_)
    assert found is not None
    return found.status, found.reason, found.message


def test_when_all_is_there_it_is_deployed_as_kubevirt_says_it() -> None:
    status = status_of(kubevirt())
    ready = ("AllComponentsReady", "All components are ready.")
    assert status.phase == "Deployed"
    assert said(status, "Available") == ("True", *ready)
    assert said(status, "Progressing") == ("False", *ready)
    assert said(status, "Degraded") == ("False", *ready)
    assert said(status, "Created") == ("True", "AllResourcesCreated", "All resources were created.")
    assert said(status, "ConfigurationValid")[:2] == ("True", "AllKeysUnderstood")
    assert said(status, "ConfigurationApplied")[:2] == ("True", "EverythingApplies")
    assert (status.observed_kube_virt_version, status.target_kube_virt_version) == ("v1.2.3", "v1.2.3")
    assert (status.observed_generation, status.default_architecture) == (4, "amd64")
    assert status.outdated_virtual_machine_instance_workloads == 0


def test_nodes_of_other_versions_are_named_and_those_too_far_away_told_apart() -> None:
    assert said(status_of(kubevirt()), "AllNodesOfThisVersion") == ("True", "OneVersion", "All run 1.2.3.")
    mixed = Health(other_versions={"c": "", "a": "1.1.9", "b": "1.0.0"})
    assert said(status_of(kubevirt(), mixed), "AllNodesOfThisVersion") == (
        "False",
        "OtherVersions",
        "The control plane runs 1.2.3; a runs 1.1.9; b runs 1.0.0, too far from it: it takes no VM;"
        " c runs a version that it does not tell",
    )
    # An upgrade that is under way is no fault.
    assert said(status_of(kubevirt(), mixed), "Available")[0] == "True"


def test_of_many_nodes_of_other_versions_some_are_named() -> None:
    many = Health(other_versions={f"n{number:04}": "1.1.0" for number in range(1000)})
    message = said(status_of(kubevirt(), many), "AllNodesOfThisVersion")[2]
    assert message.count(" runs 1.1.0") == 20
    assert message.endswith("; 980 more")


def test_what_is_missing_at_first_is_named_while_it_deploys() -> None:
    status = status_of(kubevirt(), AWAY)
    assert (status.phase, status.observed_kube_virt_version) == ("Deploying", "")
    available = said(status, "Available")
    assert available[:2] == ("False", "DeploymentInProgress")
    assert available[2].endswith("the api role does not answer; no node's handler is ready to run VMs")
    assert said(status, "Progressing")[0] == "True"
    assert said(status, "Degraded")[0] == "False"


def test_what_goes_away_later_makes_it_degraded_and_not_undeployed() -> None:
    status = status_of(kubevirt(status_of(kubevirt())), Health(api_answers=False))
    assert status.phase == "Deployed"
    assert said(status, "Available") == ("False", "ComponentsNotReady", "the api role does not answer")
    assert (said(status, "Progressing")[0], said(status, "Degraded")[0]) == ("False", "True")
    assert status.observed_kube_virt_version == "v1.2.3"


def test_launchers_of_another_release_are_told_and_that_updates_have_stopped_is_an_event() -> None:
    assert condition(status_of(kubevirt()).conditions, "LaunchersUpToDate") is None

    def with_launchers(status: str, reason: str) -> KubeVirtStatus:
        found = Condition(type="LaunchersUpToDate", status=status, reason=reason, message=f"{reason}.")
        return status_of(kubevirt(), Health(launchers=found))

    going, stopped = with_launchers("False", "Updating"), with_launchers("False", "UpdatesFailed")
    done = with_launchers("True", "UpToDate")
    assert said(going, "LaunchersUpToDate") == ("False", "Updating", "Updating.")
    assert events_of(done, going) == []
    assert events_of(going, stopped) == [Told("Warning", "WorkloadUpdatesPaused", "UpdatesFailed.")]
    assert events_of(stopped, stopped) == []
    assert events_of(stopped, done) == [Told("Normal", "WorkloadsUpdated", "UpToDate.")]
    assert Told("Normal", "WorkloadsUpdated", "UpToDate.") not in events_of(KubeVirtStatus(), done)


def test_a_key_that_nobody_knows_makes_it_not_valid_but_not_degraded() -> None:
    status = status_of(kubevirt(cpuModell="x"))
    assert said(status, "ConfigurationValid") == (
        "False",
        "UnknownKeys",
        'unknown field "spec.configuration.cpuModell"; did you mean "cpuModel"?',
    )
    assert said(status, "Degraded")[0] == "False"


def test_a_bad_value_is_told_with_what_stays_in_force() -> None:
    good = next_in_force(InForce(), [kubevirt(cpuModel="A")])
    bad = kubevirt(machineType="abacus", odd=1)
    bad.metadata.generation = 5
    status = status_of(bad, before=good)
    first, second, third = said(status, "ConfigurationValid")[2].split("; ")
    assert first.startswith("spec.configuration.machineType: abacus is not supported")
    assert second == "the configuration before this one stays in force"
    assert third == 'unknown field "spec.configuration.odd"'
    assert said(status, "Degraded")[:2] == ("True", "ConfigurationInvalid")
    assert "defaults stand for them" in said(status_of(bad), "ConfigurationValid")[2]
    assert status.observed_generation == 5


def test_what_has_no_effect_is_listed() -> None:
    status = status_of(kubevirt(selinuxLauncherType="t", migrations={"disableTLS": True}))
    assert said(status, "ConfigurationApplied") == (
        "False",
        "KeysWithoutEffect",
        "spec.configuration.selinuxLauncherType does not apply: launchers have the runtime's own; "
        "spec.configuration.migrations.disableTLS is accepted for later: what moves is encrypted",
    )
    assert said(status, "ConfigurationValid")[0] == "True"


def test_a_long_list_is_cut() -> None:
    status = status_of(kubevirt(**{f"unknown{number}": 1 for number in range(400)}))
    message = said(status, "ConfigurationValid")[2]
    assert (len(message), message[-1]) == (6000, "…")


def test_an_object_beside_the_one_that_counts_only_says_so() -> None:
    other = InForce(uid="another")
    status = plan_status(kubevirt(), other, WELL, RELEASE, NOW)
    assert status.phase == ""
    assert [item.type for item in status.conditions] == ["Synchronized"]
    assert said(status, "Synchronized") == (
        "False",
        "ExistingDeployment",
        "There is an active KubeVirt deployment",
    )


def test_an_object_on_its_way_out_says_so() -> None:
    item = kubevirt(status_of(kubevirt()))
    item.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    status = status_of(item)
    assert status.phase == "Deleting"
    assert said(status, "Available") == ("False", "DeletionInProgress", "Deletion was triggered")
    assert condition(status.conditions, "Created") is None


def test_a_status_that_is_true_already_is_not_written() -> None:
    item = kubevirt(cpuModell="x")
    status = status_of(item)
    assert status_patch(item, status) is not None
    later = plan_status(
        kubevirt(status, cpuModell="x"), next_in_force(InForce(), [item]), WELL, RELEASE, NOW + timedelta(days=1)
    )
    assert status_patch(kubevirt(status), later) is None


def test_a_patch_takes_away_what_does_not_hold_any_more() -> None:
    item = kubevirt(status_of(kubevirt()))
    patch = status_patch(item, KubeVirtStatus(conditions=[Condition(type="A", status="True")]))
    assert patch is not None
    assert patch["status"]["phase"] is None
    assert patch["status"]["conditions"] == [{"type": "A", "status": "True"}]


def test_events_tell_of_a_change_once() -> None:
    good, bad = status_of(kubevirt()), status_of(kubevirt(cpuModell="x", imageTag="1", machineType="abacus"))
    assert [(told.type, told.reason) for told in events_of(good, bad)] == [("Warning", "ConfigurationInvalid")]
    assert events_of(bad, bad) == []
    assert [(told.type, told.reason) for told in events_of(bad, good)] == [("Normal", "ConfigurationValid")]
    without = status_of(kubevirt(autoCPULimitNamespaceLabelSelector={"matchLabels": {"a": "b"}}))
    assert [(told.type, told.reason) for told in events_of(good, without)] == [("Normal", "KeysWithoutEffect")]


# What launcher Pods get of it


def configured(config: ClusterConfig = CONFIG, **configuration: Any) -> ClusterConfig:
    return config.with_configuration(read_configuration({"configuration": configuration}).configuration)


def test_the_controllers_numbers_follow_the_configuration() -> None:
    config = configured(
        developerConfiguration={"memoryOvercommit": 200, "cpuAllocationRatio": 2, "nodeSelectors": {"a": "b"}},
        additionalGuestMemoryOverheadRatio="2.0",
        vmStateStorageClass="fast",
    )
    assert config.state_storage_class == "fast"
    assert (config.memory_overcommit_percent, config.cpu_allocation_ratio) == (200, 2)
    assert config.node_selectors == {"a": "b"}
    assert overhead_bytes(a_vmi(), config) == 2 * overhead_bytes(a_vmi(), CONFIG)


@pytest.mark.parametrize(
    ("process", "is_set", "wanted", "emulates"),
    [
        (False, False, True, True),
        (False, False, False, False),
        (True, False, False, True),
        (False, True, True, False),
        (True, True, False, True),
    ],
    ids=["the object asks", "nobody asks", "KVM does not work", "the operator says kvm", "the operator says tcg"],
)
def test_the_operators_setting_wins_over_the_object(process: bool, is_set: bool, wanted: bool, emulates: bool) -> None:
    config = ClusterConfig(
        version="1", program=(), program_directories=(), capabilities_directory="", default_architecture="arm64",
        use_emulation=process, emulation_is_set=is_set,
    )  # fmt: skip
    assert configured(config, developerConfiguration={"useEmulation": wanted}).use_emulation is emulates


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "arm64"), ({"architectureConfiguration": {"defaultArchitecture": "amd64"}}, "amd64")],
    ids=["the controller's host", "the object names another"],
)
def test_a_vm_that_names_no_architecture_has_that_of_the_control_plane(given: dict[str, Any], expected: str) -> None:
    config = replace(CONFIG, default_architecture="arm64")
    assert configured(config, **given).default_architecture == expected
