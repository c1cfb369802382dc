"""The certificate by which an upload's worker shows that it is the one of its claim, as a Secret beside its Pod.

Called by the loop that makes worker Pods, in each of its rounds until the worker is ready. Reads the authority
`kvedge-upload-ca`, which the api role makes, and creates one Secret. The Secret lives as long as its claim, and no
certificate is renewed: a worker's life is short, and its certificate ends with its authority.
"""

from __future__ import annotations

import base64
from datetime import datetime

from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import existing_authority
from kvedge.resources.disks.uploads import (
    UPLOAD_AUTHORITY_SECRET,
    clone_client_name,
    upload_pod_name,
    upload_server_name,
)
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.core import Pod, Secret
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import CA_LIFE, LeafRequest, TlsMaterial


def ensure_upload_certificates(client: KubeClient, claim: PersistentVolumeClaim, now: datetime) -> None:
    """Have the Secret `upload_pod_name(claim)` there, to be mounted at UPLOAD_CERTIFICATES_DIRECTORY.

    A Secret that is there already stays: any certificate of the authority for this claim is as good. It goes with the
    claim: another claim of the same name has another UID, and needs another certificate.

    Raises:
        NotFound: when no api role has made the authority yet; it will.
        KubeError: when the API server refuses or does not answer.
        CertificateError: when the authority's Secret holds something else.
    """
    authority = existing_authority(client, UPLOAD_AUTHORITY_SECRET)
    try:
        client.create(upload_secret(authority, claim, now))
    except AlreadyExists:
        return


def ensure_sender_certificates(client: KubeClient, claim: PersistentVolumeClaim, sender: Pod, now: datetime) -> None:
    """Have the Secret of a clone's sender there; it goes with that Pod.

    Raises:
        NotFound: when no api role has made the authority yet, or the Pod's namespace is gone.
        KubeError: when the API server refuses or does not answer.
        CertificateError: when the authority's Secret holds something else.
    """
    authority = existing_authority(client, UPLOAD_AUTHORITY_SECRET)
    try:
        client.create(sender_secret(authority, claim, sender, now))
    except AlreadyExists:
        return


def sender_secret(authority: Authorities, claim: PersistentVolumeClaim, sender: Pod, now: datetime) -> Secret:
    """The Secret: a certificate that the worker of this claim alone serves, and `ca.crt` by which it is known."""
    request = LeafRequest(clone_client_name(claim.metadata.uid), server=False, life=CA_LIFE)
    kind, meta = Pod.KIND, sender.metadata
    owner = OwnerReference(api_version=kind.version, kind=kind.kind, name=meta.name, uid=meta.uid)
    return _secret(authority.issue(request, now), ObjectMeta(name=meta.name, namespace=meta.namespace), owner)


def upload_secret(authority: Authorities, claim: PersistentVolumeClaim, now: datetime) -> Secret:
    """The Secret: `tls.crt` and `tls.key` of the worker, `ca.crt` by which it knows the proxy. Pure but for keys."""
    name = upload_server_name(claim.metadata.uid)
    # The common name may have 64 characters at most; a UID and our domain have 54.
    material = authority.issue(LeafRequest(name, hosts=[name], client=False, life=CA_LIFE), now)
    kind = PersistentVolumeClaim.KIND
    owner = OwnerReference(api_version=kind.version, kind=kind.kind, name=claim.metadata.name, uid=claim.metadata.uid)
    meta = ObjectMeta(name=upload_pod_name(claim.metadata.name), namespace=claim.metadata.namespace)
    return _secret(material, meta, owner)


def _secret(material: TlsMaterial, meta: ObjectMeta, owner: OwnerReference) -> Secret:
    parts = {"tls.crt": material.certificate, "tls.key": material.key, "ca.crt": material.ca}
    meta.owner_references = [owner]
    return Secret(
        metadata=meta,
        type="kubernetes.io/tls",
        data={key: base64.b64encode(value).decode("ascii") for key, value in parts.items()},
    )
