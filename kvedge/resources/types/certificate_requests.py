"""The kind by which somebody asks a cluster for a certificate, as far as kvedge's roles and the CLI read it.

Touches nothing. The API server sets the fields about the user who asks. They alone say which user it is; nothing in the
request itself does.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.role_users import UserInfo

APPROVED = "Approved"
DENIED = "Denied"
FAILED = "Failed"


class RequestCondition(KubeStruct, kw_only=True):
    """What became of a request."""

    type: str
    status: str = "True"
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None


class CertificateRequestSpec(KubeStruct, kw_only=True):
    """What is asked for; `request` is base64 of PEM. username, uid, groups and extra are the server's word."""

    request: str = ""
    signer_name: str = ""
    expiration_seconds: int | None = None
    usages: list[str] = []
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}

    @property
    def requestor(self) -> UserInfo:
        """The requester."""
        return UserInfo(self.username, self.groups, self.uid, self.extra)


class CertificateRequestStatus(KubeStruct, kw_only=True):
    """What became of it; `certificate` is base64 of PEM."""

    conditions: list[RequestCondition] = []
    certificate: str = ""

    def condition(self, kind: str) -> RequestCondition | None:
        """The condition of that type."""
        return next((each for each in self.conditions if each.type == kind), None)


class CertificateSigningRequest(KubeStruct, kw_only=True):
    """certificates.k8s.io/v1 CertificateSigningRequest."""

    KIND: ClassVar[Kind] = Kind(
        "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False
    )
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CertificateRequestSpec = field(default_factory=CertificateRequestSpec)
    status: CertificateRequestStatus = field(default_factory=CertificateRequestStatus)
