"""A certificate and a kubeconfig for another user, from a cluster's own signer.

Called by `kvedge user` and by `kvedge install --role server`. Asks the API server, as `kubectl certificate approve`
would; the private key is made here and is nowhere but in the document.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.kubeconfigs import FoundKubeconfig
from kvedge.client.users.user_manifest import (
    NewUser,
    approval_patch,
    cluster_of,
    kubeconfig_manifest,
    request_manifest,
)
from kvedge.kube.kubeconfigs.own_kubeconfig import with_ca

if TYPE_CHECKING:
    from kvedge.kube.kube_client import KubeClient
    from kvedge.resources.codec import JsonObject

_REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_MERGE: Final = "application/merge-patch+json"
_POLL_SECONDS: Final = 0.2


def cluster_entry(found: FoundKubeconfig) -> JsonObject:
    """Where a new kubeconfig leads; read before a session is opened, which takes the authority out of it.

    Raises:
        UsageError: when the kubeconfig does not hold together.
    """
    cluster = cluster_of(found.document, found.context)
    if cluster.get("certificate-authority"):
        return with_ca(cluster, Path(cluster["certificate-authority"]).read_bytes())
    return cluster


def request_kubeconfig(client: KubeClient, made: NewUser, cluster: JsonObject, timeout: float) -> JsonObject:
    """A kubeconfig of this user, once the cluster has signed the certificate; `timeout` in seconds.

    Raises:
        RefusedError: when the request is refused.
        TimedOutError: when it is not signed in time.
        KubeError: when the API server refuses or does not answer.
    """
    from kvedge.runtime.tls.certificate_requests import new_request

    asked = new_request(made.name, made.groups)
    created = client.request("POST", _REQUESTS, request_manifest(made, asked.request))
    path = f"{_REQUESTS}/{created['metadata']['name']}"
    client.request("PATCH", f"{path}/approval", approval_patch(), None, _MERGE)
    certificate = _wait(lambda: _certificate(client, path), timeout)
    if certificate is None:
        raise TimedOutError(
            f"CertificateSigningRequest {created['metadata']['name']} was approved, but is not signed after"
            f" {timeout:.0f} s: does the cluster's controller manager run?"
        )
    return kubeconfig_manifest(made, cluster, certificate, asked.key)


def _certificate(client: KubeClient, path: str) -> bytes | None:
    status = client.request("GET", path).get("status") or {}
    failed = next((item for item in status.get("conditions") or () if item["type"] in ("Failed", "Denied")), None)
    if failed is not None:
        raise RefusedError(f"the request for a certificate was refused: {failed.get('message') or failed['type']}")
    return base64.b64decode(status["certificate"]) if status.get("certificate") else None


def _wait(ask: Callable[[], bytes | None], seconds: float) -> bytes | None:
    deadline = time.monotonic() + seconds
    while (found := ask()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found
