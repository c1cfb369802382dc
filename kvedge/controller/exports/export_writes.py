"""Makes and ends what an export needs, and remembers what the server refused.

Used by export_loop.py. Writes to one API server.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from kvedge.controller.exports.export_front import ExportFront
from kvedge.controller.exports.export_plan import expiry
from kvedge.controller.exports.export_view import SourceSeen
from kvedge.controller.exports.exporter_manifest import (
    Certified,
    export_service,
    exporter_pod,
    own_secret,
    token_secret,
)
from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vm.create_refusal import is_passing, pod_refusal
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.disks.exports import exporter_name
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Pod
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.services import Service

# An exporter that nobody ends does so itself, a moment after the export is to be gone.
_LEEWAY: Final = timedelta(minutes=1)
_LONGEST_REFUSAL: Final = 1000


class ExportWrites:
    """The one way of the loop's worker to make things."""

    def __init__(self, client: KubeClient, pods: Informer[Pod], events: EventRecorder, front: ExportFront) -> None:
        self._client = client
        self._pods = pods
        self._events = events
        self._front = front
        # By the export's UID.
        self._refusals: dict[str, str] = {}
        # UIDs of Pods whose Secret was made, by the export's.
        self._certified: dict[str, str] = {}

    def refusal(self, export: VirtualMachineExport) -> str:
        """Why the server did not take what was to be made last; empty when it did."""
        return self._refusals.get(export.metadata.uid, "")

    def has_secret(self, export: VirtualMachineExport, pod: Pod) -> bool:
        """Whether a Pod's Secret was made by this controller."""
        return self._certified.get(export.metadata.uid) == pod.metadata.uid

    def forget(self, uid: str) -> None:
        """The export is gone."""
        self._refusals.pop(uid, None)
        self._certified.pop(uid, None)

    def serve(self, export: VirtualMachineExport, source: SourceSeen, cluster: ClusterConfig, now: datetime) -> bool:
        """Make everything that serves an export; whether the server took it.

        Raises:
            KubeError: when it does not answer; the pass is repeated.
            CertificateError: when the authority's Secret holds something else.
        """
        try:
            self._make(export, source, cluster, now)
        except KubeError as error:
            if isinstance(error, (Conflict, NotFound)) or is_passing(error):
                raise
            self._refusals[export.metadata.uid] = pod_refusal(error, export.metadata.namespace)[:_LONGEST_REFUSAL]
            return False
        except _NameTaken as error:
            self._refusals[export.metadata.uid] = str(error)
            return False
        self._refusals.pop(export.metadata.uid, None)
        return True

    def keep_secrets(self, export: VirtualMachineExport, source: SourceSeen, pod: Pod, now: datetime) -> None:
        """Have the Secrets there that a Pod waits for.

        Raises:
            KubeError: when the server refuses or does not answer.
            CertificateError: when the authority's Secret holds something else.
        """
        self._make_token(export)
        if self.has_secret(export, pod):
            return
        certified = Certified(self._front.authority(), now, expiry(export))
        try:
            self._client.create(own_secret(export, pod, certified, source.manifests))
            self._events.record(export, "Normal", "SecretCreated", "Created exporter pod secret")
        except AlreadyExists:
            # Of another controller, which had no time to say so: any is as good.
            pass
        self._certified[export.metadata.uid] = pod.metadata.uid

    def _make(self, export: VirtualMachineExport, source: SourceSeen, cluster: ClusterConfig, now: datetime) -> None:
        # Before the Pod: without an authority it would wait for a Secret that cannot be made.
        self._front.authority()
        self._make_service(export)
        wanted = exporter_pod(export, source, expiry(export) + _LEEWAY, cluster)
        where = f"{wanted.metadata.namespace}/{wanted.metadata.name}"
        try:
            made = self._client.create(wanted)
            self._events.record(export, "Normal", "ExporterPodCreated", f"Created exporter pod {where}")
        except AlreadyExists:
            made = self._client.get(Pod, wanted.metadata.namespace, wanted.metadata.name)
            _check_owner(export, made.metadata, "Pod")
        self._pods.observe(made)
        self.keep_secrets(export, source, made, now)

    def _make_token(self, export: VirtualMachineExport) -> None:
        if export.spec.token_secret_ref is not None:
            return
        secret = token_secret(export)
        try:
            self._client.create(secret)
        except AlreadyExists:
            return
        where = f"{secret.metadata.namespace}/{secret.metadata.name}"
        self._events.record(export, "Normal", "SecretCreated", f"Created default secret {where}")

    def has_service(self, export: VirtualMachineExport) -> bool:
        """Whether there is a Service of its name; asked of the server, as no informer follows them.

        Raises:
            KubeError: when the server refuses or does not answer.
        """
        try:
            self._client.get(Service, export.metadata.namespace, exporter_name(export.metadata.name))
        except NotFound:
            return False
        return True

    def keep_service(self, export: VirtualMachineExport) -> bool:
        """Make the Service anew; whether the name was free.

        Raises:
            KubeError: when the server refuses or does not answer.
        """
        try:
            self._make_service(export)
        except _NameTaken:
            return False
        return True

    def _make_service(self, export: VirtualMachineExport) -> None:
        wanted = export_service(export)
        where = f"{wanted.metadata.namespace}/{wanted.metadata.name}"
        try:
            self._client.create(wanted)
            self._events.record(export, "Normal", "ServiceCreated", f"Created service {where}")
        except AlreadyExists:
            found = self._client.get(Service, wanted.metadata.namespace, wanted.metadata.name)
            _check_owner(export, found.metadata, "Service")


class _NameTaken(Exception):
    """Something else has the name."""


def _check_owner(export: VirtualMachineExport, found: ObjectMeta, kind: str) -> None:
    if any(owner.uid == export.metadata.uid for owner in found.owner_references):
        return
    if found.deletion_timestamp is None:
        text = f"{kind} {found.name} exists and is not of this export, which needs the name: delete it"
    else:
        text = f"{kind} {found.name} of before is ending"
    raise _NameTaken(text)
