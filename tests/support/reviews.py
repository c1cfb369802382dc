"""AdmissionRequests and VMI documents for tests: small, valid, and changed at one place."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import yaml

from kvedge.api.admission.admission_message import AdmissionRequest, AdmissionUser, GroupVersionResource
from kvedge.resources.codec import JsonObject

SMOKE = Path(__file__).parent / "manifests/kubevirt-smoke-fedora.yaml"


def smoke_vm() -> JsonObject:
    """The manifest of a real user."""
    return yaml.safe_load(SMOKE.read_text())


def small_vmi(**changes: Any) -> JsonObject:
    """A VMI with the least that is accepted; `changes` are dotted paths below spec with `__` for dots."""
    spec: JsonObject = {
        "domain": {
            "memory": {"guest": "64Mi"},
            "devices": {
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "bridge": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "containerDisk": {"image": "demo:1"}}],
    }
    for path, value in changes.items():
        put(spec, path.replace("__", "."), value)
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": spec,
    }


def vm_of(vmi: JsonObject, **spec: Any) -> JsonObject:
    """A VM with that VMI as its template."""
    template = {"metadata": {}, "spec": copy.deepcopy(vmi["spec"])}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {**(spec if spec else {"runStrategy": "Always"}), "template": template},
    }


def put(document: Any, path: str, value: Any) -> None:
    """Set one member by its path, such as `domain.devices.disks[0].cache`; None removes it."""
    names = path.replace("[", ".[").split(".")
    for name, following in itertools.pairwise(names):
        if name.startswith("["):
            document = document[int(name[1:-1])]
        else:
            document = document.setdefault(name, [] if following.startswith("[") else {})
    last = names[-1]
    if last.startswith("["):
        index = int(last[1:-1])
        if index == len(document):
            document.append(value)
        else:
            document[index] = value
    elif value is None:
        document.pop(last, None)
    else:
        document[last] = value


def request(
    document: JsonObject | None,
    old: JsonObject | None = None,
    user: str = "alice",
    groups: list[str] | None = None,
) -> AdmissionRequest:
    """A write of that document: a create, or an update of `old`."""
    shown = document if document is not None else old or {}
    resource = {"VirtualMachine": "virtualmachines"}.get(shown["kind"], "virtualmachineinstances")
    return AdmissionRequest(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        resource=GroupVersionResource(group="kubevirt.io", version="v1", resource=resource),
        name=shown["metadata"].get("name", ""),
        namespace="default",
        user_info=AdmissionUser(username=user, groups=groups or []),
        object=document,
        old_object=old,
    )
