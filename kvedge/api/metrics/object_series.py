"""The series that are made of objects: which VMIs there are, and how they are.

Called by metrics_server.py. Pure. Names, types and labels are KubeVirt's; labels of its that nothing here knows are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge import __version__
from kvedge.api.metrics.exposition import Metric
from kvedge.api.subresources.discovery_manifest import CONFORMS_TO
from kvedge.resources.evacuation import LIVE_MIGRATABLE
from kvedge.resources.moves.workload_updates import OUTDATED_LAUNCHER
from kvedge.resources.types.vmi import GuestOsInfo, VirtualMachineInstance

# As KubeVirt writes that a template does not say.
_NONE: Final = "<none>"
# Annotations by which templates describe themselves.
_DESCRIBED: Final = ("os", "workload", "flavor")


def build_object_metrics(vmis: Sequence[VirtualMachineInstance]) -> list[Metric]:
    """The metrics of VMIs, and what the api role is."""
    info = Metric("kubevirt_vmi_info", "gauge", "VMIs, and how they are.")
    outdated = Metric("kubevirt_vmi_number_of_outdated", "gauge", "VMIs in launchers of an earlier release.")
    for vmi in vmis:
        info.add(_info_labels(vmi), 1)
    outdated.add({}, sum(OUTDATED_LAUNCHER in vmi.metadata.labels for vmi in vmis))
    release = Metric("kubevirt_info", "gauge", "The release of KubeVirt whose API is served, and of kvedge.")
    release.add({"goversion": "", "kubeversion": f"{CONFORMS_TO}+kvedge{__version__}"}, 1)
    ready = Metric("kubevirt_virt_api_ready_status", "gauge", "Whether the api role serves.")
    # It has just been asked, and answers.
    ready.add({}, 1)
    return [info, outdated, release, ready]


def _info_labels(vmi: VirtualMachineInstance) -> dict[str, str]:
    guest = vmi.status.guest_os_info or GuestOsInfo()
    condition = next((each for each in vmi.status.conditions if each.type == LIVE_MIGRATABLE), None)
    return {
        "node": vmi.status.node_name,
        "namespace": vmi.metadata.namespace,
        "name": vmi.metadata.name,
        "phase": vmi.status.phase.lower(),
        **{key: vmi.metadata.annotations.get(f"vm.kubevirt.io/{key}", _NONE) for key in _DESCRIBED},
        "guest_os_kernel_release": guest.kernel_release,
        "guest_os_machine": guest.machine,
        "guest_os_name": guest.name,
        "guest_os_version_id": guest.version_id,
        "evictable": str(condition is not None and condition.status == "True").lower(),
        "outdated": str(OUTDATED_LAUNCHER in vmi.metadata.labels).lower(),
    }
