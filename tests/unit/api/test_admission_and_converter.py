# Tests: kvedge/api/admission/admission_plan.py, kvedge/launcher/domain/
"""Admission and the launcher's converter are two gates with one opinion: what no domain can be made of is refused when
it is applied, and what a domain can be made of enters, but for what waits for other parts of kvedge."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

import jsonpatch
import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import encode
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.golden.domain_cases import case_names, load_case
from tests.support.reviews import request
from tests.unit.launcher.domain.test_refusals import CASES

GATES: Final = FeatureGates(
    enabled=frozenset(
        {
            "DownwardMetrics",
            "EnableVirtioFsStorageVolumes",
            "HostDisk",
            "HostDevices",
            "NetworkDevicesWithDRA",
            "VSOCK",
            "WorkloadEncryptionTDX",
        }
    )
)
CLUSTER: Final = Cluster("amd64", Configuration(gates=GATES, reserves_luns=True))

# What a case asks for that the converter can do, and that no volume, network or node gives it yet.
WAITS: Final[Mapping[str, set[str]]] = {}
# Only one NIC can join the Pod's network, and there is no other network yet.
ONE_NETWORK: Final = {"interfaces"}
# What depends on the node that a VMI comes to, which nobody knows when it is applied.
OF_THE_NODE: Final = (
    "metadata.uid",
    "spec.architecture",
    "spec.domain.cpu.dedicatedCpuPlacement",
    "spec.domain.firmware.kernelBoot.container.kernelPath",
    "spec.domain.firmware.kernelBoot.container.initrdPath",
    "spec.domain.devices.disks[0].blockSize.custom.discardGranularity",
    "spec.domain.devices.disks[0].blockSize.matchVolume",
    "spec.domain.devices.interfaces[0].model",
    "spec.domain.devices.panicDevices[0].model",
    "spec.domain.devices.gpus[0].deviceName",
    "spec.domain.devices.hostDevices[0].deviceName",
)


def refused_fields(document: Mapping[str, Any]) -> set[str]:
    vmi = copy.deepcopy(dict(document)) | {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
    vmi.pop("status", None)
    entered = jsonpatch.apply_patch(vmi, plan_mutation(request(vmi), CLUSTER, "2026-01-01T00:00:00Z"))
    return {str(cause.field) for cause in plan_verdict(request(entered), CLUSTER).causes}


@pytest.mark.parametrize("name", [name for name in case_names() if name not in ONE_NETWORK])
def test_what_a_domain_can_be_made_of_enters(name: str) -> None:
    assert refused_fields(load_case(name).vmi_document) == WAITS.get(name, set())


@pytest.mark.parametrize(
    ("field", "vmi"),
    [case for case in CASES if case[0] not in OF_THE_NODE],
    ids=[field for field, _ in CASES if field not in OF_THE_NODE],
)
def test_what_no_domain_can_be_made_of_is_refused_when_it_is_applied(field: str, vmi: VirtualMachineInstance) -> None:
    # Which of two fields that exclude each other is named may differ.
    parent = field.rpartition(".")[0]
    refused = refused_fields(encode(vmi))
    assert any(found.startswith((field, parent)) or field.startswith(found) for found in refused), refused
