"""The credential by which one box sends one guest to another: asked of the target, and left with the source.

Called by `box_move`. Asks the target's API server as its administrator would by `kubectl certificate approve`; the key
is made here. Neither box trusts the other one's authority for anything else, and it ends by itself after a day.
"""

from __future__ import annotations

import base64
import contextlib
import time
from typing import Final

from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.session import Session
from kvedge.kube.errors import AlreadyExists, KubeError, NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.role_rights import CA_BUNDLE_KEY, CA_BUNDLE_NAME, HANDLER_SIGNER
from kvedge.resources.moves.crossing import (
    CREDENTIAL_CA,
    CREDENTIAL_CERTIFICATE,
    CREDENTIAL_KEY,
    CREDENTIAL_NODE,
    CREDENTIAL_SECONDS,
    CREDENTIALS_NAMESPACE,
    crossing_server_name,
)
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import ConfigMap, Namespace, Secret

_REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_MERGE: Final = "application/merge-patch+json"
_POLL_SECONDS: Final = 0.2
_SIGN_SECONDS: Final = 30.0


def give_credential(source: Session, target: Session, migration_id: str, node: str) -> None:
    """Have the source's handler know by what it calls the target's, on `node`; again for one that is to be renewed.

    Raises:
        RefusedError: when the target does not sign.
        TimedOutError: when it has not signed in time.
        KubeError: when one of the API servers refuses or does not answer.
    """
    certificate, key = _request(target, migration_id)
    trusted = target.client.get(ConfigMap, SYSTEM_NAMESPACE, CA_BUNDLE_NAME).data.get(CA_BUNDLE_KEY, "")
    if not trusted:
        raise RefusedError(f"the target has no {CA_BUNDLE_KEY} in ConfigMap {SYSTEM_NAMESPACE}/{CA_BUNDLE_NAME}")
    values = {
        CREDENTIAL_CERTIFICATE: certificate,
        CREDENTIAL_KEY: key,
        CREDENTIAL_CA: trusted.encode(),
        CREDENTIAL_NODE: node.encode(),
    }
    data = {name: base64.b64encode(value).decode() for name, value in values.items()}
    _leave(source, migration_id, data)


def drop_credential(source: Session, migration_id: str) -> None:
    """It is of no use any more; one that cannot be deleted ends by itself."""
    with contextlib.suppress(KubeError):
        source.client.delete(Secret, CREDENTIALS_NAMESPACE, migration_id)


def _leave(source: Session, migration_id: str, data: dict[str, str]) -> None:
    with contextlib.suppress(AlreadyExists):
        source.client.request("POST", Namespace.KIND.path(), {"metadata": {"name": CREDENTIALS_NAMESPACE}})
    document: JsonObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": migration_id, "namespace": CREDENTIALS_NAMESPACE},
        "data": data,
    }
    try:
        source.client.request("POST", Secret.KIND.path(CREDENTIALS_NAMESPACE), document)
    except AlreadyExists:
        source.client.patch(Secret, CREDENTIALS_NAMESPACE, migration_id, MergePatch({"data": data}))


def _request(target: Session, migration_id: str) -> tuple[bytes, bytes]:
    """A certificate and its key."""
    from kvedge.runtime.tls.certificate_requests import new_request
    from kvedge.runtime.tls.certificates import MIGRATION_NAME

    asked = new_request(MIGRATION_NAME, hosts=[crossing_server_name(migration_id)])
    document: JsonObject = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "kvedge-crossing-"},
        "spec": {
            "request": base64.b64encode(asked.request).decode(),
            "signerName": HANDLER_SIGNER,
            "usages": ["digital signature", "client auth"],
            "expirationSeconds": CREDENTIAL_SECONDS,
        },
    }
    created = target.client.request("POST", _REQUESTS, document)
    path = f"{_REQUESTS}/{created['metadata']['name']}"
    approval: JsonObject = {
        "type": "Approved",
        "status": "True",
        "reason": "KvedgeMigrate",
        "message": "approved by the administrator who moves a VM here with `kvedge migrate --to`",
    }
    target.client.request("PATCH", f"{path}/approval", {"status": {"conditions": [approval]}}, None, _MERGE)
    deadline = time.monotonic() + _SIGN_SECONDS
    while time.monotonic() < deadline:
        try:
            status = target.client.request("GET", path).get("status") or {}
        except NotFound as error:
            raise RefusedError("the target has removed the request for a certificate") from error
        failed = next((item for item in status.get("conditions") or () if item["type"] in ("Failed", "Denied")), None)
        if failed is not None:
            raise RefusedError(f"the target refuses a certificate: {failed.get('message') or failed['type']}")
        if status.get("certificate"):
            return base64.b64decode(status["certificate"]), asked.key
        time.sleep(_POLL_SECONDS)
    raise TimedOutError(f"the target has not signed a certificate after {_SIGN_SECONDS:.0f} s: does its api role run?")
