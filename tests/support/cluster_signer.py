"""What kube-controller-manager does with approved requests for client certificates; a kube-apiserver alone has none."""

from __future__ import annotations

import base64
import threading
from types import TracebackType

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.types.certificate_requests import APPROVED, CertificateSigningRequest
from tests.support.certificate_files import FileAuthority

_SIGNER = "kubernetes.io/kube-apiserver-client"


class ClusterSigner:
    """Signs with the cluster's authority while it is entered."""

    def __init__(self, admin: KubeClient, authority: FileAuthority) -> None:
        self._admin = admin
        self._authority = authority
        self._stop = threading.Event()
        self._requests = Informer(admin, CertificateSigningRequest, field_selector=f"spec.signerName={_SIGNER}")
        self._thread = threading.Thread(target=self._run, name="cluster-signer", daemon=True)

    def __enter__(self) -> ClusterSigner:
        self._requests.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._requests.stop()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            for request in self._requests.list():
                if request.status.condition(APPROVED) and not request.status.certificate:
                    self._sign(request)

    def _sign(self, request: CertificateSigningRequest) -> None:
        pem = self._authority.certify(base64.b64decode(request.spec.request))
        text = base64.b64encode(pem).decode()
        patch = MergePatch({"status": {"certificate": text}})
        written = self._admin.patch(CertificateSigningRequest, "", request.metadata.name, patch, "status")
        self._requests.observe(written)
