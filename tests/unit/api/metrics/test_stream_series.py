"""The series of streams: KubeVirt's names and labels, and that they go with the VMI."""

from __future__ import annotations

from typing import Any, Final

from kvedge.api.metrics.exposition import render
from kvedge.api.metrics.stream_series import TABLE, build_stream_metrics
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.role_stats import RoleStats, StreamStats
from tests.support.builders import small_vmi
from tests.unit.api.metrics.test_exposition import read_back

# Of docs/observability/metrics.md of KubeVirt 1.9: all that virt-api tells of streams; each is a gauge.
KUBEVIRTS: Final = """
console_active_connections portforward_active_tunnels usbredir_active_connections
vmi_last_api_connection_timestamp_seconds vnc_active_connections
"""
LABELS: Final = {"node": "n1", "namespace": "default", "vmi": "web"}


def vmi(name: str, uid: str = "1") -> VirtualMachineInstance:
    document = small_vmi()
    document["metadata"] |= {"namespace": "default", "name": name, "uid": uid}
    return decode(VirtualMachineInstance, document)


def streams(name: str = "web", uid: str = "1", ended: int = 0, **kinds: int) -> StreamStats:
    return StreamStats(namespace="default", name=name, uid=uid, open=kinds, ended=ended)


def read(found: list[tuple[str, RoleStats]], *vmis: VirtualMachineInstance) -> dict[str, Any]:
    return read_back(render(build_stream_metrics(found, vmis)))


def test_names_and_types_are_kubevirts() -> None:
    theirs = {f"kubevirt_{name}" for name in KUBEVIRTS.split()}
    assert TABLE.keys() == theirs | {"kvedge_spice_active_connections"}
    assert {row.kind for row in TABLE.values()} == {"gauge"}


def test_each_kind_has_its_series_and_other_kinds_have_none() -> None:
    told = streams(console=1, vnc=2, usbredir=3, portforward=4, spice=5, unheard_of=6, ended=7)
    assert read([("n1", RoleStats(process="p", streams=[told]))], vmi("web")) == {
        "kubevirt_console_active_connections": [(LABELS, 1.0)],
        "kubevirt_vnc_active_connections": [(LABELS, 2.0)],
        "kubevirt_usbredir_active_connections": [(LABELS, 3.0)],
        "kubevirt_portforward_active_tunnels": [(LABELS, 4.0)],
        "kvedge_spice_active_connections": [(LABELS, 5.0)],
        "kubevirt_vmi_last_api_connection_timestamp_seconds": [(LABELS, 7.0)],
    }


def test_vmis_that_are_gone_have_no_series_and_one_made_anew_begins_anew() -> None:
    told = [streams(vnc=0, ended=9), streams("gone", vnc=1), streams(uid="2", console=1)]
    found = read([("n1", RoleStats(process="p", streams=told))], vmi("web", "2"))
    assert found == {"kubevirt_console_active_connections": [(LABELS, 1.0)]}


def test_api_roles_tell_of_their_own_streams_and_each_process_once() -> None:
    one, other = (RoleStats(process=name, streams=[streams(vnc=1)]) for name in "ab")
    found = read([("n1", one), ("n2", other), ("here", one)], vmi("web"))["kubevirt_vnc_active_connections"]
    assert sorted(labels["node"] for labels, _ in found) == ["n1", "n2"]
