"""The series that are made of objects: VMs, VMIs, migrations, snapshots; and what the api role is.

Called by metrics_server.py. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

from kvedge import __version__
from kvedge.api.metrics import job_series, vm_series, vmi_series
from kvedge.api.metrics.exposition import Metric
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.api.metrics.series_table import Table, Told, build, gauge
from kvedge.api.subresources.discovery_manifest import CONFORMS_TO
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.moves.workload_updates import OUTDATED_LAUNCHER

T = TypeVar("T")

_SINGLE: Final[Table] = {
    "kubevirt_vmi_number_of_outdated": gauge("VMIs in launchers of an earlier release."),
    "kubevirt_info": gauge("The release of KubeVirt whose API is served, and of kvedge."),
    "kubevirt_virt_api_ready_status": gauge("Whether the api role serves."),
    "kubevirt_configuration_emulation_enabled": gauge("Whether guests may run in software emulation."),
    "kvedge_objects_up": gauge("Whether the API server tells of the objects of a kind."),
    "kvedge_objects_left_out": gauge("Objects of which no series could be made."),
}
TABLE: Final[Table] = {
    **vm_series.TABLE,
    **vmi_series.TABLE,
    **job_series.COUNTS,
    **job_series.MIGRATIONS,
    **job_series.SNAPSHOTS,
    **_SINGLE,
}


def build_object_metrics(seen: SeenObjects, configuration: Configuration) -> Iterator[Metric]:
    """The metrics of objects, and of the api role, kind by kind: a thousand VMs have megabytes of samples."""
    left_out: Counter[tuple[str, str]] = Counter()

    def make(kind: str, table: Table, items: Iterable[T], tell: Callable[[T], Iterable[Told]]) -> list[Metric]:
        return build(table, items, tell, partial(_count, left_out, kind))

    names = {migration.job: migration.metadata.name for migration in seen.migrations}
    vmis = vmi_series.VmiTeller(configuration.eviction_strategy, names)
    claims = {(claim.metadata.namespace, claim.metadata.name): claim for claim in seen.claims}
    yield from make("virtualmachines", vm_series.TABLE, seen.vms, partial(vm_series.tell_vm, claims, seen.labels))
    yield from make("virtualmachineinstances", vmi_series.TABLE, seen.vmis, vmis.tell)
    yield from job_series.count_migrations(seen.migrations)
    yield from make(
        "virtualmachineinstancemigrations", job_series.MIGRATIONS, seen.migrations, job_series.tell_migration
    )
    yield from make("virtualmachinesnapshots", job_series.SNAPSHOTS, seen.snapshots, job_series.tell_snapshot)
    yield from _single(seen, configuration, left_out)


def _count(left_out: Counter[tuple[str, str]], kind: str, error: str) -> None:
    left_out[kind, error] += 1


def _single(seen: SeenObjects, configuration: Configuration, left_out: Counter[tuple[str, str]]) -> Iterable[Metric]:
    metrics = {name: Metric(name, row.kind, row.help) for name, row in _SINGLE.items()}
    outdated = sum(OUTDATED_LAUNCHER in vmi.metadata.labels for vmi in seen.vmis)
    metrics["kubevirt_vmi_number_of_outdated"].add({}, outdated)
    release = {"goversion": "", "kubeversion": f"{CONFORMS_TO}+kvedge{__version__}"}
    metrics["kubevirt_info"].add(release, 1)
    # It has just been asked, and answers.
    metrics["kubevirt_virt_api_ready_status"].add({}, 1)
    metrics["kubevirt_configuration_emulation_enabled"].add({}, int(configuration.use_emulation))
    for kind, known in seen.known.items():
        metrics["kvedge_objects_up"].add({"resource": kind}, int(known))
    for (kind, error), count in left_out.items():
        metrics["kvedge_objects_left_out"].add({"resource": kind, "error": error}, count)
    return metrics.values()
