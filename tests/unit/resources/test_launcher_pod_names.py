"""What launcher Pods are called."""

from __future__ import annotations

from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with


def run_of(uid: str) -> VirtualMachineInstance:
    return vmi_with(uid=uid)


def test_two_runs_of_a_vm_have_different_pod_names_and_one_run_always_the_same():
    first, second = run_of("33333333-3333-3333-3333-333333333333"), run_of("44444444-4444-4444-4444-444444444444")
    assert launcher_pod_name(first) == launcher_pod_name(first)
    assert launcher_pod_name(first) != launcher_pod_name(second)
