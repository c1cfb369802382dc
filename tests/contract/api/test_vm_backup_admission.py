"""KubeVirt's backups are refused by both servers where their gate is off, as KubeVirt refuses them."""

from __future__ import annotations

import pytest

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
WEB = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}


@pytest.mark.parametrize("kind", [VirtualMachineBackup, VirtualMachineBackupTracker])
def test_the_gate_is_named(admin: KubeClient, kind: type[VirtualMachineBackup | VirtualMachineBackupTracker]) -> None:
    document = {
        "apiVersion": kind.KIND.api_version,
        "kind": kind.KIND.kind,
        "metadata": {"name": "admission"},
        "spec": {"source": WEB},
    }
    with pytest.raises(KubeError, match="IncrementalBackup feature gate not enabled"):
        admin.request("POST", kind.KIND.path("default"), document)
