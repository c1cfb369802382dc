"""The lines of `kvedge list`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.client.vm_rows import age_text, header, rows_of
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import owned_by, vmi_with

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def vm(name: str, namespace: str = "default", **status: object) -> VirtualMachine:
    spec = {
        "domain": {"memory": {"guest": "512Mi"}, "cpu": {"cores": 2, "threads": 2}},
        "volumes": [
            {"name": "init", "cloudInitNoCloud": {"userData": "x"}},
            {"name": "system", "containerDisk": {"image": "local/debian:12"}},
        ],
    }
    document: JsonObject = {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-02T11:58:30Z"},
        "spec": {"runStrategy": "Always", "template": {"spec": spec}},
        "status": {"printableStatus": "Stopped", **status},
    }
    return decode(VirtualMachine, document)


def vmi(name: str, namespace: str = "default", owner: str = "", **status: object) -> VirtualMachineInstance:
    spec = {"domain": {"resources": {"requests": {"memory": "64Mi"}}}}
    owners = [owned_by("VirtualMachine", owner, "u")] if owner else []
    running = {"phase": "Running", "nodeName": "edge", **status}
    return vmi_with(spec, running, name=name, namespace=namespace, ownerReferences=owners)


def test_the_memory_of_a_vm_that_only_limits_it_is_shown() -> None:
    limited = vmi_with({"domain": {"resources": {"limits": {"memory": "96Mi"}}}}, {"phase": "Running"}, name="web")
    (row,) = rows_of([], [limited], NOW)
    assert row.memory == "96Mi"


def test_a_guest_whose_memory_can_change_is_shown_with_what_it_has() -> None:
    spec = {"domain": {"memory": {"guest": "3Gi", "maxGuest": "4Gi"}}}
    growing = vmi_with(spec, {"phase": "Running", "memory": {"guestCurrent": "2Gi"}}, name="web")
    assert [row.memory for row in rows_of([], [growing], NOW)] == ["2Gi"]
    assert [row.memory for row in rows_of([], [vmi_with(spec, {"phase": "Pending"}, name="web")], NOW)] == ["3Gi"]


def test_a_vm_that_runs_has_its_runs_address_and_node() -> None:
    nics = [
        {"name": "lan", "mac": "02:1"},
        {"name": "default", "mac": "02:2", "ipAddress": "10.0.0.5", "infoSource": "domain"},
    ]
    (row,) = rows_of(
        [vm("web", printableStatus="Running", ready=True)], [vmi("web", owner="web", interfaces=nics)], NOW
    )
    assert row.cells(wide=True, with_namespace=True) == [
        *("default", "web", "Running", "yes", "10.0.0.5", "edge", "1m30s", "512Mi", "local/debian:12"),
        *("4", "Always", "02:2", "domain", "-", "init=cloudInitNoCloud, system=containerDisk"),
    ]
    assert len(header(wide=True, with_namespace=True)) == 15


def test_the_disks_are_named_with_their_claims_and_sizes() -> None:
    volumes = [
        {"name": "root", "persistentVolumeClaim": {"claimName": "web-root"}},
        {"name": "d", "dataVolume": {"name": "x"}},
    ]
    info = {"claimName": "web-root", "capacity": {"storage": "10Gi"}}
    status = {"volumeStatus": [{"name": "root", "target": "vda", "persistentVolumeClaimInfo": info}]}
    bare = vmi_with({"domain": {}, "volumes": volumes}, status, name="web", namespace="n")
    (row,) = rows_of([], [bare], NOW)
    assert row.cells(wide=True, with_namespace=False)[-1] == "root=pvc/web-root(10Gi), d=dv/x"
    assert row.document()["disks"][0] == {"name": "root", "source": "pvc/web-root", "size": "10Gi"}


def test_a_vm_without_topology_shows_the_cpus_that_its_domain_gets() -> None:
    limited = vm("web")
    assert limited.spec.template is not None
    limited.spec.template.spec.domain = decode(DomainSpec, {"resources": {"limits": {"cpu": 4}}})
    (row,) = rows_of([limited], [], NOW)
    assert row.cells(wide=True, with_namespace=False)[header(wide=True, with_namespace=False).index("CPUS")] == "4"


def test_what_is_not_known_is_a_hyphen() -> None:
    (row,) = rows_of([vm("web")], [], NOW)
    assert row.cells(wide=False, with_namespace=False)[3:5] == ["-", "-"]
    assert row.kind_and_name == "virtualmachine.kubevirt.io/web"


def test_a_vmi_without_a_vm_has_a_line_of_its_own() -> None:
    rows = rows_of([vm("b"), vm("a", "z")], [vmi("c"), vmi("orphan", owner="gone"), vmi("b", owner="b")], NOW)
    assert [(row.namespace, row.name, row.kind) for row in rows] == [
        ("default", "b", "VirtualMachine"),
        ("default", "c", "VirtualMachineInstance"),
        ("z", "a", "VirtualMachine"),
    ]
    assert (rows[1].status, rows[1].memory) == ("Running", "64Mi")
    assert len(rows_of([], [vmi("c")], NOW, with_bare=False)) == 0


def test_what_a_guest_says_of_itself_cannot_move_the_cursor() -> None:
    (row,) = rows_of([], [vmi("c", guestOSInfo={"prettyName": "De\x1b[2Jbian\x07\n"})], NOW)
    assert "\x1b" not in row.guest
    assert "\x07" not in row.guest


@pytest.mark.parametrize("status", ["ErrorUnschedulable", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"])
def test_trouble_is_seen(status: str) -> None:
    assert rows_of([vm("web", printableStatus=status)], [], NOW)[0].is_trouble


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (90, "1m30s"), (600, "10m"), (605, "10m")],
        *[(3600, "1h"), (3660, "1h1m"), (36_000, "10h"), (86_400, "1d"), (90_000, "1d1h"), (864_000, "10d")],
    ],
)
def test_an_age_is_told_in_one_unit_or_two(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
