"""What a preference requires of a VM, and the words of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.instancetypes.requirements import find_unmet

TYPE = {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}
AT = "spec.template.spec"


def preference(topology: str = "sockets", across: str | None = None, **needs: Any) -> dict[str, Any]:
    return {"cpu": {"preferredCPUTopology": topology, "spreadOptions": {"across": across}}, "requirements": needs}


def vm(sockets: int = 1, cores: int = 1, threads: int = 1, memory: str | None = None) -> dict[str, Any]:
    cpu = {"sockets": sockets, "cores": cores, "threads": threads}
    return {"domain": {"cpu": cpu, "memory": {"guest": memory}}, "architecture": "amd64"}


VCPU = "insufficient CPU resources of {} vCPU provided by VirtualMachine, preference requires {} vCPU provided as {}"
CASES: dict[str, tuple[Any, Any, Any, str, str]] = {
    "vCPUs of a type": (
        TYPE,
        preference(cpu={"guest": 2}),
        vm(),
        "spec.instancetype",
        "insufficient CPU resources of 1 vCPU provided by instance type, preference requires 2 vCPU",
    ),
    "vCPUs of a VM at another place": (
        None,
        preference(cpu={"guest": 4}),
        vm(cores=4),
        f"{AT}.domain.cpu.sockets",
        VCPU.format(1, 4, "sockets"),
    ),
    "spread": (
        None,
        preference("spread", cpu={"guest": 4}),
        vm(sockets=2, threads=2),
        f"{AT}.domain.cpu.sockets, {AT}.domain.cpu.cores",
        VCPU.format(2, 4, "SocketsCores"),
    ),
    "any": (
        None,
        preference("preferAny", cpu={"guest": 4}),
        vm(sockets=3),
        f"{AT}.domain.cpu.cores, {AT}.domain.cpu.sockets, {AT}.domain.cpu.threads",
        VCPU.format(3, 4, "cores, sockets and threads"),
    ),
    "no vCPUs": (
        None,
        preference(cpu={"guest": 4}),
        {"domain": {}},
        f"{AT}.domain.cpu",
        "no CPU resources provided by VirtualMachine, preference requires 4 vCPU",
    ),
    "memory of a type": (
        TYPE,
        preference(memory={"guest": "2Gi"}),
        vm(),
        "spec.instancetype",
        "insufficient Memory resources of 1Gi provided by instance type, preference requires 2Gi",
    ),
    "memory of a VM": (
        None,
        preference(memory={"guest": "2Gi"}),
        vm(memory="1G"),
        f"{AT}.domain.memory",
        "insufficient Memory resources of 1G provided by VirtualMachine, preference requires 2Gi",
    ),
    "no memory": (
        None,
        preference(memory={"guest": "2Gi"}),
        vm(),
        f"{AT}.domain.memory",
        "insufficient Memory resources of 0 provided by VirtualMachine, preference requires 2Gi",
    ),
    "architecture": (
        TYPE,
        preference(architecture="arm64"),
        vm(),
        f"{AT}.architecture",
        "preference requires architecture arm64 but amd64 is being requested",
    ),
}


@pytest.mark.parametrize(("given", "wanted", "spec", "field", "words"), CASES.values(), ids=CASES)
def test_what_is_not_met(given: Any, wanted: Any, spec: Any, field: str, words: str) -> None:
    assert find_unmet(given, wanted, spec) == (field, words)


@pytest.mark.parametrize(
    ("given", "wanted", "spec"),
    [
        (None, {}, vm()),
        (TYPE, preference(cpu={"guest": 1}, memory={"guest": "1Gi"}, architecture="amd64"), vm()),
        (None, preference("spread", "SocketsCoresThreads", cpu={"guest": 8}), vm(2, 2, 2)),
        (None, preference(memory={"guest": "1Gi"}), vm(memory="1024Mi")),
    ],
)
def test_what_is_met(given: Any, wanted: Any, spec: Any) -> None:
    assert find_unmet(given, wanted, spec) == ("", "")
