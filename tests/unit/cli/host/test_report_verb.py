"""What a report tells of a cluster: what decides over VMs, and nothing that holds secrets."""

from __future__ import annotations

import pytest

from kvedge.cli.host.report_verb import is_told
from kvedge.resources.types.core import Pod, Secret
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine


@pytest.mark.parametrize("kind", [Pod, DataVolume, PersistentVolumeClaim, StorageClass, VirtualMachine])
def test_what_a_vm_waits_for_is_told(kind: type) -> None:
    assert is_told(kind.KIND)


def test_secrets_of_a_cluster_are_nobodys_business() -> None:
    assert not is_told(Secret.KIND)
