"""The annotations by which backups freeze guests: who has them, and who switches them off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.controller.vm.template_changes import plan_backup_word
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.controller.vmi.launcher_pod.backup_hooks import make_hooks, plan_hooks
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration_in_force import InForce, next_in_force
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import LAUNCHER_VERSION, SKIP_BACKUP_HOOKS
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod, a_vm, a_vmi

COMMAND = "pre.hook.backup.velero.io/command"


def a_guest(said: str | None = None) -> VirtualMachineInstance:
    vmi = a_vmi()
    if said is not None:
        vmi.metadata.annotations[SKIP_BACKUP_HOOKS] = said
    return vmi


def test_a_backup_freezes_the_guest_and_thaws_it() -> None:
    vmi = a_guest()
    hooks = make_hooks(vmi, skips=False)
    names = ["--name", vmi.metadata.name, "--namespace", vmi.metadata.namespace]
    assert json.loads(hooks[COMMAND]) == ["virt-freezer", "--freeze", *names]
    assert json.loads(hooks["post.hook.backup.velero.io/command"]) == ["virt-freezer", "--unfreeze", *names]
    assert hooks["pre.hook.backup.velero.io/timeout"] == "60s"
    assert {hooks[f"{when}.hook.backup.velero.io/container"] for when in ("pre", "post")} == {"compute"}


@pytest.mark.parametrize(
    ("said", "skips", "has"),
    [(None, False, True), (None, True, False), ("true", False, False), ("1", False, False), ("false", True, True)],
    ids=["nobody says", "the KubeVirt object", "the VMI", "the VMI in Go's words", "the VMI wins"],
)
def test_it_is_switched_off_by_the_vmi_or_else_by_the_kubevirt_object(said: str | None, skips: bool, has: bool) -> None:
    assert bool(make_hooks(a_guest(said), skips=skips)) is has


def changes(vmi: VirtualMachineInstance, has: dict[str, str], *, skips: bool = False) -> JsonObject:
    pod = a_pod(vmi)
    pod.metadata.annotations = dict(has)
    found = plan_hooks(vmi, pod, "1", skips=skips)
    return {} if found is None else found["metadata"]["annotations"]


def test_a_pod_that_runs_follows() -> None:
    hooks = make_hooks(a_guest(), skips=False)
    assert changes(a_guest(), {}) == hooks
    assert changes(a_guest(), hooks) == {}
    assert changes(a_guest("true"), hooks) == dict.fromkeys(hooks)
    assert changes(a_guest("true"), {}) == {}
    own = hooks | {COMMAND: '["fsfreeze"]'}
    assert changes(a_guest("true"), own) == dict.fromkeys(key for key in hooks if key != COMMAND)


def test_a_launcher_of_another_release_keeps_what_it_has() -> None:
    vmi = a_guest()
    vmi.metadata.annotations[LAUNCHER_VERSION] = "0"
    assert changes(vmi, {}) == {}


def test_the_vms_word_is_its_runs_at_once_and_wins_over_its_template() -> None:
    vm = a_vm()
    assert vm.spec.template is not None
    vmi = vmi_from_vm(vm, paused=False)
    assert plan_backup_word(vm, vmi) == {}
    vm.metadata.annotations[SKIP_BACKUP_HOOKS] = "true"
    assert plan_backup_word(vm, vmi) == {"metadata": {"annotations": {SKIP_BACKUP_HOOKS: "true"}}}
    assert plan_backup_word(vm, vmi_from_vm(vm, paused=False)) == {}
    vm.spec.template.metadata.annotations[SKIP_BACKUP_HOOKS] = "false"
    assert plan_backup_word(vm, vmi_from_vm(vm, paused=False)) == {}
    del vm.metadata.annotations[SKIP_BACKUP_HOOKS]
    vm.spec.template.metadata.annotations.clear()
    vmi.metadata.annotations[SKIP_BACKUP_HOOKS] = "true"
    assert plan_backup_word(vm, vmi) == {"metadata": {"annotations": {SKIP_BACKUP_HOOKS: None}}}


def test_the_kubevirt_objects_word_counts_at_once() -> None:
    def in_force(before: InForce, **annotations: Any) -> InForce:
        meta = ObjectMeta(name="kubevirt", namespace="kubevirt", uid="u", generation=1, annotations=annotations)
        return next_in_force(before, [KubeVirt(metadata=meta)])

    first = in_force(InForce())
    assert not first.configuration.skips_backup_hooks
    assert in_force(first, **{SKIP_BACKUP_HOOKS: "true"}).configuration.skips_backup_hooks
