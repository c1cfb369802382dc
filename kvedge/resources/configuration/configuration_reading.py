"""From the KubeVirt object's spec to the configuration in force, with findings for every key that needs a word.

Called by the follower in kube/, by the controller for the object's conditions and by admission. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.configuration.configuration import (
    DEFAULT_INTERFACES,
    DEFAULTS,
    REFERENCE_POLICIES,
    Configuration,
    Finding,
    Issue,
    LiveUpdates,
    LogLevels,
    Migrations,
    TrackedVms,
    WorkloadUpdates,
)
from kvedge.resources.configuration.configuration_bindings import binding_plugins
from kvedge.resources.configuration.configuration_checks import Checks
from kvedge.resources.configuration.configuration_devices import read_permitted
from kvedge.resources.configuration.configuration_platform import with_platform
from kvedge.resources.configuration.configuration_support import read_support
from kvedge.resources.configuration.configuration_table import Effect, key_of
from kvedge.resources.configuration.feature_gates import (
    PERSISTENT_RESERVATION,
    FeatureGates,
    find_disabled_without_effect,
    find_enabled_without_effect,
    unknown_gates,
)
from kvedge.resources.label_selectors import LabelSelector, selector_of, selector_problems
from kvedge.resources.moves.workload_updates import EVICT, LIVE_MIGRATE, METHODS
from kvedge.resources.types.kubevirt import KubeVirtSpec, WorkloadUpdateStrategy
from kvedge.resources.types.kubevirt_configuration import (
    BlockTrackingSelectors,
    DeveloperConfiguration,
    KubeVirtConfiguration,
    LiveUpdateConfiguration,
    LogVerbosity,
    MigrationConfiguration,
    NetworkConfiguration,
)
from kvedge.resources.types.migrations import DOWNTIME_MS
from kvedge.resources.unknown_fields import unknown_fields
from kvedge.resources.vmi_facts import MOST_VCPUS

_AT: Final = "spec.configuration"
_DEVELOPER: Final = f"{_AT}.developerConfiguration"
_MIGRATIONS: Final = f"{_AT}.migrations"
_UPDATES: Final = "spec.workloadUpdateStrategy"
_MOST_OVERHEAD: Final = 100
_DAY: Final = 86_400
_MOST_PARALLEL: Final = 1000
_MOST_BATCH: Final = 1000
# As many devices as a kubelet is told of without harm.
_MOST_VMIS: Final = 5000


class Reading(Struct, frozen=True):
    """A spec as it was understood."""

    configuration: Configuration
    findings: tuple[Finding, ...]

    def of(self, *issues: Issue) -> tuple[Finding, ...]:
        """The findings of these kinds."""
        return tuple(finding for finding in self.findings if finding.issue in issues)


def read_configuration(spec: JsonObject) -> Reading:
    """Understand a KubeVirt object's spec, whatever is in it."""
    findings = [Finding(Issue.UNKNOWN, item.path, item.message) for item in unknown_fields(KubeVirtSpec, spec, "spec")]
    try:
        typed = decode(KubeVirtSpec, spec)
    except DecodeError as error:
        path = f"spec.{error.path}" if error.path else "spec"
        findings.append(Finding(Issue.INVALID, path, f"{path}: {error.detail}"))
        return Reading(DEFAULTS, tuple(findings))
    checks = Checks()
    configuration = replace(
        _configuration(typed.configuration or KubeVirtConfiguration(), checks),
        workload_updates=_workload_updates(typed.workload_update_strategy or WorkloadUpdateStrategy(), checks),
    )
    # A key without an architecture is found for each one.
    told = dict.fromkeys((*findings, *checks.findings, *_without_effect(spec)))
    return Reading(configuration, tuple(told))


def _configuration(given: KubeVirtConfiguration, checks: Checks) -> Configuration:
    made = _with_developer(DEFAULTS, given.developer_configuration or DeveloperConfiguration(), checks)
    made = with_platform(made, given, checks)
    made = _with_guests(made, given, checks)
    made = _with_network(made, given.network or NetworkConfiguration(), checks)
    made = _with_types(made, given, checks)
    return replace(
        made,
        migrations=_migrations(given.migrations or MigrationConfiguration(), checks),
        live_updates=_live_updates(given, checks),
        tracked_vms=_tracked_vms(given.changed_block_tracking_label_selectors, checks),
        permitted_devices=read_permitted(given.permitted_host_devices, checks),
        support=read_support(given.support_container_resources, checks),
        reserves_luns=_reserves_luns(given, made),
    )


def _reserves_luns(given: KubeVirtConfiguration, made: Configuration) -> bool:
    """KubeVirt's rule: its own switch, else the gate, where it is named."""
    switch = given.persistent_reservation_configuration
    if switch is not None and switch.enabled is not None:
        return switch.enabled
    return PERSISTENT_RESERVATION in made.gates.enabled


def _live_updates(given: KubeVirtConfiguration, checks: Checks) -> LiveUpdates:
    room, at = given.live_update_configuration or LiveUpdateConfiguration(), f"{_AT}.liveUpdateConfiguration"
    ratio = checks.whole(f"{at}.maxHotplugRatio", room.max_hotplug_ratio, 4, 1, MOST_VCPUS)
    sockets = checks.whole(f"{at}.maxCpuSockets", room.max_cpu_sockets, 0, 1, MOST_VCPUS)
    memory = checks.amount(f"{at}.maxGuest", room.max_guest, above_zero=True)
    most_memory = None if memory is None else int(memory)
    strategy = given.vm_rollout_strategy
    return LiveUpdates(strategy != "Stage", strategy is not None, ratio, sockets or None, most_memory)


def _tracked_vms(given: BlockTrackingSelectors | None, checks: Checks) -> TrackedVms:
    if given is None:
        return TrackedVms()
    at = f"{_AT}.changedBlockTrackingLabelSelectors"
    made: list[LabelSelector | None] = []
    for name, document in (
        ("namespaceLabelSelector", given.namespace_label_selector),
        ("virtualMachineLabelSelector", given.virtual_machine_label_selector),
    ):
        problems = [] if document is None else list(selector_problems(document))
        for path, message in problems:
            checks.note_invalid(f"{at}.{name}.{path}", message)
        made.append(None if document is None or problems else selector_of(document))
    return TrackedVms(*made)


def _with_developer(made: Configuration, given: DeveloperConfiguration, checks: Checks) -> Configuration:
    overcommit, ratio = given.memory_overcommit, given.cpu_allocation_ratio
    return replace(
        made,
        gates=_gates(given, checks),
        use_emulation=bool(given.use_emulation),
        memory_overcommit_percent=checks.whole(f"{_DEVELOPER}.memoryOvercommit", overcommit, 100, 10, 10_000),
        cpu_allocation_ratio=checks.whole(f"{_DEVELOPER}.cpuAllocationRatio", ratio, 10, 1, 1000),
        node_selectors=dict(checks.labels(f"{_DEVELOPER}.nodeSelectors", given.node_selectors)),
        log_levels=_log_levels(given.log_verbosity or LogVerbosity(), checks),
    )


def _gates(given: DeveloperConfiguration, checks: Checks) -> FeatureGates:
    enabled, disabled = given.feature_gates, given.disabled_feature_gates
    for name, gates in (("featureGates", enabled), ("disabledFeatureGates", disabled)):
        for index, message in unknown_gates(gates):
            checks.findings.append(Finding(Issue.UNKNOWN, f"{_DEVELOPER}.{name}[{index}]", message))
    both = frozenset(enabled) & frozenset(disabled)
    for gate in sorted(both):
        text = f'feature gate "{gate}" exists on both "FeatureGates" and "DisabledFeatureGates"'
        checks.findings.append(Finding(Issue.INVALID, f"{_DEVELOPER}.featureGates", text))
    return FeatureGates(frozenset(enabled) - both, frozenset(disabled) - both)


def _log_levels(given: LogVerbosity, checks: Checks) -> LogLevels:
    at = f"{_DEVELOPER}.logVerbosity"
    nodes = {node: checks.level(f"{at}.nodeVerbosity[{node}]", value) for node, value in given.node_verbosity.items()}
    return LogLevels(
        checks.level(f"{at}.virtAPI", given.virt_api),
        checks.level(f"{at}.virtController", given.virt_controller),
        checks.level(f"{at}.virtHandler", given.virt_handler),
        {node: value for node, value in nodes.items() if value is not None},
    )


def _with_guests(made: Configuration, given: KubeVirtConfiguration, checks: Checks) -> Configuration:
    options, request = given.virtual_machine_options, given.cpu_request
    most = checks.whole(
        f"{_AT}.virtualMachineInstancesPerNode", given.virtual_machine_instances_per_node, 1000, 1, _MOST_VMIS
    )
    has_request = checks.amount(f"{_AT}.cpuRequest", request, above_zero=True) is not None
    return replace(
        made,
        cpu_request=str(request) if has_request else None,
        eviction_strategy=given.eviction_strategy or made.eviction_strategy,
        memory_overhead_ratio=checks.ratio(
            f"{_AT}.additionalGuestMemoryOverheadRatio", given.additional_guest_memory_overhead_ratio, _MOST_OVERHEAD
        ),
        serial_console_log=options is None or options.disable_serial_console_log is None,
        free_page_reporting=options is None or options.disable_free_page_reporting is None,
        balloon_stats_seconds=checks.whole(
            f"{_AT}.memBalloonStatsPeriod", given.mem_balloon_stats_period, made.balloon_stats_seconds, 0, _DAY
        ),
        vmis_per_node=most,
        state_storage_class=given.vm_state_storage_class,
    )


def _with_network(made: Configuration, given: NetworkConfiguration, checks: Checks) -> Configuration:
    binding = given.default_network_interface or made.default_interface
    if binding not in DEFAULT_INTERFACES:
        text = f"'{binding}' is not supported by this release; use {' or '.join(DEFAULT_INTERFACES)}"
        checks.note_invalid(f"{_AT}.network.defaultNetworkInterface", text)
        binding = made.default_interface
    permitted = given.permit_bridge_interface_on_pod_network is not False
    return replace(
        made,
        default_interface=binding,
        permit_bridge_on_pod_network=permitted,
        bindings=dict(binding_plugins(given.binding, checks)),
    )


def _with_types(made: Configuration, given: KubeVirtConfiguration, checks: Checks) -> Configuration:
    policy = None if given.instancetype is None else given.instancetype.reference_policy
    if policy is not None and policy not in REFERENCE_POLICIES:
        text = f"'{policy}' is no policy; use {', '.join(REFERENCE_POLICIES)}"
        checks.note_invalid(f"{_AT}.instancetype.referencePolicy", text)
        policy = None
    deployment = given.common_instancetypes_deployment
    return replace(
        made,
        reference_policy=policy or made.reference_policy,
        common_types=None if deployment is None else deployment.enabled,
    )


def _migrations(given: MigrationConfiguration, checks: Checks) -> Migrations:
    made = Migrations()

    def whole(name: str, value: int | None, default: int, most: int = _DAY) -> int:
        return checks.whole(f"{_MIGRATIONS}.{name}", value, default, 1, most)

    per_node, per_cluster = given.parallel_outbound_migrations_per_node, given.parallel_migrations_per_cluster
    per_gib, utility = given.completion_timeout_per_gib, given.utility_volumes_timeout
    bandwidth = checks.amount(f"{_MIGRATIONS}.bandwidthPerMigration", given.bandwidth_per_migration, above_zero=False)
    return Migrations(
        parallel_per_node=whole("parallelOutboundMigrationsPerNode", per_node, made.parallel_per_node, _MOST_PARALLEL),
        parallel_per_cluster=whole(
            "parallelMigrationsPerCluster", per_cluster, made.parallel_per_cluster, _MOST_PARALLEL
        ),
        bandwidth=int(bandwidth or 0),
        progress_timeout=whole("progressTimeout", given.progress_timeout, made.progress_timeout),
        completion_timeout_per_gib=whole("completionTimeoutPerGiB", per_gib, made.completion_timeout_per_gib),
        utility_volumes_timeout=whole("utilityVolumesTimeout", utility, made.utility_volumes_timeout),
        max_downtime_ms=whole("maxDowntimeMs", given.max_downtime_ms, made.max_downtime_ms, DOWNTIME_MS[1]),
        allow_auto_converge=bool(given.allow_auto_converge),
        allow_post_copy=bool(given.allow_post_copy),
        allow_workload_disruption=given.allow_workload_disruption,
        unsafe_override=bool(given.unsafe_migration_override),
        disable_tls=bool(given.disable_tls),
        node_drain_taint_key=given.node_drain_taint_key or made.node_drain_taint_key,
        network=checks.network(f"{_MIGRATIONS}.network", given.network or ""),
    )


def _workload_updates(given: WorkloadUpdateStrategy, checks: Checks) -> WorkloadUpdates:
    made = WorkloadUpdates()
    for index, method in enumerate(given.workload_update_methods):
        if method not in METHODS:
            text = f"'{method}' is not supported; use {' or '.join(METHODS)}"
            checks.note_invalid(f"{_UPDATES}.workloadUpdateMethods[{index}]", text)
    return WorkloadUpdates(
        LIVE_MIGRATE in given.workload_update_methods,
        EVICT in given.workload_update_methods,
        checks.whole(f"{_UPDATES}.batchEvictionSize", given.batch_eviction_size, made.batch_size, 0, _MOST_BATCH),
        checks.seconds(f"{_UPDATES}.batchEvictionInterval", given.batch_eviction_interval, made.batch_seconds, _DAY),
    )


def _without_effect(spec: JsonObject) -> Iterator[Finding]:
    """What is set and does nothing, or nothing yet; an empty object or list sets nothing."""
    yield from _in_object(spec, "")
    developer = _member(_member(spec, "configuration"), "developerConfiguration")
    for name, judge in (
        ("featureGates", find_enabled_without_effect),
        ("disabledFeatureGates", find_disabled_without_effect),
    ):
        gates = developer.get(name)
        for index, message in judge(gates if isinstance(gates, list) else []):
            yield Finding(Issue.NO_EFFECT, f"{_DEVELOPER}.{name}[{index}]", message)


def _in_object(value: JsonObject, at: str) -> Iterator[Finding]:
    for name, item in value.items():
        path = f"{at}.{name}" if at else name
        key = key_of(path)
        # An empty object switches where virtualMachineOptions is concerned; elsewhere it says nothing.
        if _is_empty(item) and not path.startswith("configuration.virtualMachineOptions."):
            continue
        own = key if key is not None and key.path == path else None
        if own is not None and own.effect is not Effect.APPLIED:
            if item not in own.same:
                yield Finding(Issue.NO_EFFECT, f"spec.{path}", f"spec.{path} {own.effect.value}: {own.reason}")
        elif own is not None and item in own.without:
            yield Finding(Issue.NO_EFFECT, f"spec.{path}", f"spec.{path} {item} {Effect.NONE.value}: {own.reason}")
        elif isinstance(item, dict):
            yield from _in_object(item, path)


def _is_empty(value: Any) -> bool:
    """Whether a value says nothing: null, empty, or made of such."""
    if isinstance(value, dict):
        return all(_is_empty(item) for item in value.values())
    return value is None or value in ("", [])


def _member(value: JsonObject, name: str) -> JsonObject:
    member = value.get(name)
    return member if isinstance(member, dict) else {}
