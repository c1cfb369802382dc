"""The Pod that a guest comes to with its data: on the claims that its volumes get, while these are fit for that."""

from __future__ import annotations

import copy

import pytest

from kvedge.resources.meta import OwnerReference
from kvedge.resources.types.core import Pod
from kvedge.resources.types.migrations import MIGRATION_JOB_UID
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import ClaimInfo, MigratedVolume, VirtualMachineInstance
from tests.support.builders import a_claim, a_pod, a_vmi, vmi_with, with_volumes
from tests.unit.controller.migrations.small_server import SmallServer, a_namespaced_node
from tests.unit.controller.migrations.test_migration_loop import add_guest

OLD = {"name": "root", "persistentVolumeClaim": {"claimName": "old"}}


def moving(server: SmallServer, *claims: PersistentVolumeClaim) -> VirtualMachineInstance:
    """A guest whose volume goes from the claim `old` to `new`, and a migration of it."""
    vmi = add_guest(server)
    vmi.spec = vmi_with(with_volumes(OLD)).spec
    vmi.status.migrated_volumes = [
        MigratedVolume(
            volume_name="root",
            source_pvc_info=ClaimInfo(claim_name="old"),
            destination_pvc_info=ClaimInfo(claim_name="new"),
        )
    ]
    for item in (vmi, *claims):
        server.put(item)
    server.tell()
    return vmi


def target(server: SmallServer) -> Pod | None:
    return next((pod for pod in server.pods() if MIGRATION_JOB_UID in pod.metadata.labels), None)


def claims_of(pod: Pod) -> list[str]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


@pytest.mark.parametrize("phase", ["Bound", "Pending"])
def test_the_pod_has_the_claims_that_the_volumes_get(phase: str) -> None:
    server = SmallServer()
    moving(server, a_claim("old"), a_claim("new", phase))
    server.turn("move-web")
    made = target(server)
    assert made is not None
    assert claims_of(made) == ["new"]


def going() -> PersistentVolumeClaim:
    claim = a_claim("new")
    claim.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
    return claim


def filling() -> PersistentVolumeClaim:
    claim = a_claim("new")
    owner = OwnerReference(api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="new", uid="d1")
    owner.controller = True
    claim.metadata.owner_references = [owner]
    return claim


@pytest.mark.parametrize(
    ("claims", "said"),
    [([], "does not exist"), ([going()], "is being deleted")],
    ids=["missing", "going"],
)
def test_no_pod_is_made_for_a_claim_that_takes_no_data(claims: list[PersistentVolumeClaim], said: str) -> None:
    server = SmallServer()
    moving(server, a_claim("old"), *claims)
    wait = server.turn("move-web")
    assert wait is not None
    text = f"PVC new, to which the data of volume root is to be copied, {said}"
    assert server.told() == [("Warning", "FailedCreate", text)]
    assert target(server) is None
    # It goes on by itself once the claim is there.
    server.put(a_claim("new"))
    server.tell()
    server.clock.seconds += 120
    server.turn("move-web")
    assert target(server) is not None


def test_a_claim_that_is_being_filled_is_waited_for() -> None:
    server = SmallServer()
    moving(server, a_claim("old"), filling())
    wait = server.turn("move-web")
    assert wait is not None
    assert wait.after == 5.0
    ((kind, _, text),) = server.told()
    assert kind == "Normal"
    assert text.endswith("is being filled: the guest moves by itself once it is full")
    full = filling()
    full.metadata.annotations["cdi.kubevirt.io/storage.pod.phase"] = "Succeeded"
    server.put(full)
    server.tell()
    server.turn("move-web")
    assert target(server) is not None


def test_no_pod_is_made_for_a_claim_that_another_vm_has_got_since() -> None:
    server = SmallServer()
    moving(server, a_claim("old"), a_claim("new"))
    other = a_vmi("Running")
    other.metadata.name, other.metadata.uid = "db", "uid-of-db"
    other.spec = vmi_with(with_volumes({"name": "d", "persistentVolumeClaim": {"claimName": "new"}})).spec
    launcher = copy.deepcopy(a_pod(other, "Running", "node-1"))
    launcher.metadata.uid = "uid-of-pod-of-db"
    for item in (other, launcher):
        server.put(item)
    server.tell()
    server.turn("move-web")
    assert target(server) is None
    ((_, reason, text),) = server.told()
    assert (reason, text.startswith("PVC new of volume root is in use by VM db")) == ("FailedCreate", True)


def test_the_pod_wishes_for_the_cpu_of_the_node_that_the_guest_leaves() -> None:
    server = SmallServer()
    add_guest(server)
    for name, model in (("node-1", "Icelake"), ("node-2", "Nehalem")):
        node = a_namespaced_node(name, name)
        node.metadata.labels[f"host-model-cpu.node.kubevirt.io/{model}"] = "true"
        server.put(node)
    server.tell()
    server.turn("move-web")
    made = target(server)
    assert made is not None
    wishes = str(made.spec.affinity)
    assert ("Icelake" in wishes, "Nehalem" in wishes) == (True, False)
