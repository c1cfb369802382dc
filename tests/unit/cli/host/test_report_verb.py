"""What a report tells of a cluster: what decides over VMs, and nothing that holds secrets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from kvedge.appliance.report.report_file import ReportFile
from kvedge.appliance.report.report_redaction import Redaction
from kvedge.cli.host import report_verb
from kvedge.cli.host.report_verb import is_told
from kvedge.kube.errors import Forbidden
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Pod, Secret
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim, StorageClass
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.settings import LoadedSettings, Settings


@pytest.mark.parametrize("kind", [Pod, DataVolume, PersistentVolumeClaim, StorageClass, VirtualMachine])
def test_what_a_vm_waits_for_is_told(kind: type) -> None:
    assert is_told(kind.KIND)


def test_secrets_of_a_cluster_are_nobodys_business() -> None:
    assert not is_told(Secret.KIND)


def test_a_kind_that_may_not_be_read_costs_no_other_one() -> None:
    archive = SimpleNamespace(notes=[])
    collector = report_verb._Collector(cast(ReportFile, archive), Redaction(), LoadedSettings(Settings(), {}))

    def answer(method: str, path: str, query: dict[str, str]) -> dict[str, list[dict[str, str]]]:
        assert query == {"limit": "2000"}
        if path == Pod.KIND.path():
            raise Forbidden(403, "Forbidden", 'pods is forbidden: User "system:node:n1" cannot list them')
        return {"items": [{"name": "one"}]}

    client = cast(KubeClient, SimpleNamespace(request=answer))
    assert [collector._list(client, kind) for kind in (Pod.KIND, DataVolume.KIND)] == [[], [{"name": "one"}]]
    assert archive.notes == ['pods: Forbidden: pods is forbidden: User "system:node:n1" cannot list them']
