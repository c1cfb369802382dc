"""Golden launcher Pods: `pods/<case>.yaml` has a VMI, what differs from the usual configuration, and the claims of its
namespace, and `pods/<case>.pod.yaml` the Pod that must come of it. With a migration, and the host names of nodes that
are avoided, it is the Pod that the guest comes to.

Used by the unit tests and by the contract tests, which have API servers accept the same Pods. Write the Pods anew with
`python -m tests.support.golden.pod_cases`, then read the difference before committing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.migrations.target_pod import target_pod
from kvedge.controller.vm.vmi_template import vmi_from_vm
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import JsonObject, decode, encode
from kvedge.resources.configuration.configuration_reading import read_configuration
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, VM_UID, VMI_UID
from tests.support.values import replace

GOLDEN = Path(__file__).parent / "pods"
FEDORA = Path(__file__).parents[1] / "manifests" / "kubevirt-smoke-fedora.yaml"


@dataclass(frozen=True)
class GoldenPod:
    """One case, read from its files."""

    name: str
    vmi: VirtualMachineInstance
    config: ClusterConfig
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    migration: VirtualMachineInstanceMigration | None = None
    avoided: tuple[str, ...] = ()

    @property
    def rendered(self) -> JsonObject:
        source = launcher_pod(self.vmi, self.config, self.claims)
        if self.migration is None:
            return encode(source)
        return encode(target_pod(self.vmi, self.migration, source, self.config, self.claims, self.avoided))

    @property
    def expected(self) -> JsonObject:
        return yaml.safe_load(self.path.read_text())

    @property
    def path(self) -> Path:
        return GOLDEN / f"{self.name}.pod.yaml"


def golden_pods() -> list[GoldenPod]:
    """All cases, and the manifest of a real user."""
    names = sorted(path.stem for path in GOLDEN.glob("*.yaml") if not path.stem.endswith(".pod"))
    return [*(_read(name) for name in names), _fedora()]


def _read(name: str) -> GoldenPod:
    document = yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())
    vmi = decode(VirtualMachineInstance, document["vmi"])
    vmi.metadata.uid = VMI_UID
    claims = [decode(PersistentVolumeClaim, claim) for claim in document.get("claims", [])]
    by_name = {claim.metadata.name: claim for claim in claims}
    config = replace(CONFIG, **_snake(document.get("config", {})))
    migration = document.get("migration")
    moves = None if migration is None else decode(VirtualMachineInstanceMigration, migration)
    return GoldenPod(name, vmi, config, by_name, moves, tuple(document.get("avoided", ())))


def _fedora() -> GoldenPod:
    vm = decode(VirtualMachine, next(yaml.safe_load_all(FEDORA.read_text())))
    vm.metadata.uid = VM_UID
    vm.metadata.namespace = vm.metadata.namespace or "default"
    vmi = vmi_from_vm(vm, paused=False)
    vmi.metadata.uid = VMI_UID
    return GoldenPod("kubevirt-smoke-fedora", vmi, CONFIG)


def _snake(config: dict[str, Any]) -> dict[str, Any]:
    made = {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): value for key, value in config.items()}
    if "bindings" in made:
        # As the KubeVirt object has them.
        reading = read_configuration({"configuration": {"network": {"binding": made["bindings"]}}})
        made["bindings"] = reading.configuration.bindings
    return made


if __name__ == "__main__":
    for case in golden_pods():
        case.path.write_text(yaml.safe_dump(case.rendered, sort_keys=False, width=110))
