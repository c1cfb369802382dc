"""The policy of a migration, and the configuration that is frozen for it.

Called when a migration is handed over. Pure. A change of the policy or of the KubeVirt object does not reach a
migration that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvedge.resources.configuration.configuration import Migrations
from kvedge.resources.types.kubevirt_configuration import MigrationConfiguration
from kvedge.resources.types.migrations import MigrationPolicy


def choose_policy(
    policies: Iterable[MigrationPolicy], vmi_labels: Mapping[str, str], namespace_labels: Mapping[str, str]
) -> MigrationPolicy | None:
    """The policy whose selectors name the most labels; of several the one with more of the VMI, then the first name."""
    matching = [each for each in policies if _matches(each, vmi_labels, namespace_labels)]
    return min(matching, key=_rank, default=None)


def freeze(limits: Migrations, policy: MigrationPolicy | None) -> MigrationConfiguration:
    """What holds for one migration: the cluster's, changed by the policy."""
    spec = None if policy is None else policy.spec
    converges = spec.allow_auto_converge if spec is not None else None
    bandwidth = spec.bandwidth_per_migration if spec is not None else None
    timeout = spec.completion_timeout_per_gib if spec is not None else None
    downtime = spec.max_downtime_ms if spec is not None else None
    disruption = spec.allow_workload_disruption if spec is not None else None
    return MigrationConfiguration(
        node_drain_taint_key=limits.node_drain_taint_key,
        parallel_outbound_migrations_per_node=limits.parallel_per_node,
        parallel_migrations_per_cluster=limits.parallel_per_cluster,
        allow_auto_converge=limits.allow_auto_converge if converges is None else converges,
        bandwidth_per_migration=str(limits.bandwidth) if bandwidth is None else bandwidth,
        completion_timeout_per_gib=limits.completion_timeout_per_gib if timeout is None else timeout,
        max_downtime_ms=limits.max_downtime_ms if downtime is None else downtime,
        progress_timeout=limits.progress_timeout,
        utility_volumes_timeout=limits.utility_volumes_timeout,
        unsafe_migration_override=limits.unsafe_override,
        # A guest that arrives waits until it is released, which a half that runs already cannot do.
        allow_post_copy=False,
        allow_workload_disruption=bool(limits.allow_workload_disruption if disruption is None else disruption),
        disable_tls=limits.disable_tls,
    )


def needs_namespace(policies: Iterable[MigrationPolicy]) -> bool:
    """Whether the labels of namespaces matter to any policy."""
    return any(each.spec.selectors is not None and each.spec.selectors.namespace_selector for each in policies)


def _matches(policy: MigrationPolicy, vmi_labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
    found = policy.spec.selectors
    if found is None or found.is_for_no_vmi:
        return False
    pairs = (
        (found.namespace_selector, namespace_labels),
        (found.virtual_machine_instance_selector, vmi_labels),
    )
    return all(labels.get(key) == value for selector, labels in pairs for key, value in (selector or {}).items())


def _rank(policy: MigrationPolicy) -> tuple[int, int, str]:
    found = policy.spec.selectors
    of_vmi = len(found.virtual_machine_instance_selector or {}) if found is not None else 0
    of_namespace = len(found.namespace_selector or {}) if found is not None else 0
    return (-(of_vmi + of_namespace), -of_vmi, policy.metadata.name)
