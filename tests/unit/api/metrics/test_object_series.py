"""The series of VMIs: how each is, and how many run in old launchers."""

from __future__ import annotations

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.object_series import build_object_metrics
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi
from tests.unit.api.metrics.test_exposition import read_back


def test_a_vmi_is_told_of_with_its_phase_its_system_and_whether_it_can_move() -> None:
    document = small_vmi()
    document["metadata"]["annotations"] = {"vm.kubevirt.io/os": "debian"}
    document["metadata"]["labels"] = {"kubevirt.io/outdatedLauncherImage": ""}
    document["status"] = {
        "phase": "Running",
        "nodeName": "n1",
        "guestOSInfo": {"name": 'Debian "12"\n', "kernelRelease": "6.1"},
        "conditions": [{"type": "LiveMigratable", "status": "True"}],
    }
    found = read_back(render(build_object_metrics([decode(VirtualMachineInstance, document)])))
    (info,) = found["kubevirt_vmi_info"]
    assert info == (
        {
            "node": "n1",
            "namespace": "default",
            "name": "small",
            "phase": "running",
            "os": "debian",
            "workload": "<none>",
            "flavor": "<none>",
            "guest_os_kernel_release": "6.1",
            "guest_os_machine": "",
            "guest_os_name": 'Debian "12"\n',
            "guest_os_version_id": "",
            "evictable": "true",
            "outdated": "true",
        },
        1.0,
    )
    assert found["kubevirt_vmi_number_of_outdated"] == [({}, 1.0)]
    assert found["kubevirt_virt_api_ready_status"] == [({}, 1.0)]


def test_without_vmis_there_is_still_who_answers() -> None:
    found = read_back(render(build_object_metrics([])))
    assert found.keys() == {"kubevirt_vmi_number_of_outdated", "kubevirt_info", "kubevirt_virt_api_ready_status"}
