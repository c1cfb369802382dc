"""What a DataVolume copies: the claim or snapshot that it or its DataSource names, and who writes that claim.

Called by data_volume_loop.py. Reads informers, and the API server for snapshots.
"""

from __future__ import annotations

from kvedge.controller.datavolumes.claim_plan import ClaimProblem
from kvedge.controller.datavolumes.data_volume_status import WITHOUT_SOURCE
from kvedge.controller.datavolumes.data_volume_view import SourceSeen
from kvedge.controller.datavolumes.granted_clones import GrantedClones
from kvedge.controller.datavolumes.snapshot_sources import see_snapshot
from kvedge.controller.vmi_claims import vmis_of
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.claim_facts import is_populated
from kvedge.resources.types.data_volumes import DataSource, DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance


def source_key(dv: DataVolume) -> tuple[str, str] | None:
    """Namespace and name of the claim that a DataVolume names as its source; None when it copies none."""
    pvc = None if dv.spec.source is None else dv.spec.source.pvc
    if pvc is None:
        return None
    return pvc.namespace or dv.metadata.namespace, pvc.name


class CloneSources:
    """Looks at what is copied."""

    def __init__(
        self,
        claims: Informer[PersistentVolumeClaim],
        data_sources: Informer[DataSource],
        vmis: Informer[VirtualMachineInstance],
        grants: GrantedClones,
        client: KubeClient,
    ) -> None:
        """`grants` says what may be copied from afar."""
        self._grants = grants
        self._client = client
        self._claims = claims
        self._data_sources = data_sources
        self._vmis = vmis

    def find_source(self, dv: DataVolume) -> SourceSeen | None:
        """The source, or None when the DataVolume copies nothing."""
        snapshot = None if dv.spec.source is None else dv.spec.source.snapshot
        if snapshot is not None:
            return self._of_snapshot(dv, snapshot.namespace or dv.metadata.namespace, snapshot.name)
        if dv.spec.source_ref is not None:
            found = self._of_data_source(dv)
            if isinstance(found, SourceSeen):
                return found
            return self._of_claim(dv, *found)
        key = source_key(dv)
        return None if key is None else self._of_claim(dv, *key)

    def _of_data_source(self, dv: DataVolume) -> SourceSeen | tuple[str, str]:
        reference = dv.spec.source_ref
        assert reference is not None
        namespace = reference.namespace or dv.metadata.namespace
        named = self._data_sources.get(namespace, reference.name)
        if named is None:
            return SourceSeen(problem=ClaimProblem("NotFound", f"DataSource {namespace}/{reference.name} not found"))
        snapshot = named.status.source.snapshot or named.spec.source.snapshot
        if snapshot is not None:
            return self._of_snapshot(dv, snapshot.namespace or namespace, snapshot.name)
        pvc = named.status.source.pvc or named.spec.source.pvc
        if pvc is None:
            text = f"DataSource {namespace}/{reference.name} points at no claim and no snapshot"
            return SourceSeen(problem=ClaimProblem("NotFound", text))
        return pvc.namespace or namespace, pvc.name

    def _of_snapshot(self, dv: DataVolume, namespace: str, name: str) -> SourceSeen:
        return see_snapshot(self._client, namespace, name, dv.metadata.namespace)

    def _of_claim(self, dv: DataVolume, namespace: str, name: str) -> SourceSeen:
        if namespace != dv.metadata.namespace and (problem := self._grants.problem(dv, namespace)):
            # Nothing is said of what lies there, not even whether it does.
            return SourceSeen(problem=ClaimProblem("CloneValidationFailed", problem))
        claim = self._claims.get(namespace, name)
        if claim is None:
            return SourceSeen(problem=ClaimProblem(WITHOUT_SOURCE, f"The source pvc {name} doesn't exist"))
        return SourceSeen(claim=claim, writer=self._writer(claim))

    def _writer(self, claim: PersistentVolumeClaim) -> str:
        """The writer that may change the claim during the copy; empty for none."""
        namespace, name = claim.metadata.namespace, claim.metadata.name
        if not is_populated(claim):
            return f"PersistentVolumeClaim {name} is being filled by its DataVolume"
        for vmi in vmis_of(self._vmis, namespace, name):
            if not vmi.is_final:
                who = f"{vmi.metadata.namespace}/{vmi.metadata.name}"
                return f"VirtualMachineInstance {who} using PersistentVolumeClaim {name}: stop it, and the copy begins"
        return ""
