"""Which of a node's own kubeconfigs need a new certificate, and what it should say. Pure.

Called by `kvedge user renew`, by hand or by its timer. A kubeconfig that is not as kvedge writes it is somebody else's
to look after: a new certificate is for the user, the groups and the server that the old one was for, or there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

from kvedge.kube.kubeconfigs.own_kubeconfig import NotOursError, read_own_kubeconfig
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import API_GROUP, API_USER, CONTROLLER_GROUP, CONTROLLER_USER, HANDLER_GROUP, UserInfo
from kvedge.runtime.tls.certificates import CertificateError, ends_at, renewal_due

_CA: Final = "certificate-authority-data"


class RoleCertificate(Struct, frozen=True):
    """What a role's kubeconfig says: who it is, until when, and where it leads."""

    user: str
    group: str
    end: datetime
    is_due: bool
    cluster: JsonObject


def role_certificate(role: str, text: bytes, now: datetime) -> RoleCertificate:
    """What is in the kubeconfig of a role.

    Raises:
        NotOursError: when it is not one that kvedge has made for this role.
    """
    try:
        written = read_own_kubeconfig(text)
        pem = written.certificate
        found = RoleCertificate(*_names(pem), ends_at(pem), renewal_due(pem, now), written.cluster)
    except (CertificateError, ValueError) as error:
        raise NotOursError("is no kubeconfig of one user with a certificate") from error
    if not _is_of_role(role, found):
        raise NotOursError(f"is of {found.user or 'nobody'}, not of the {role}")
    return found


def renew_cluster(present: JsonObject, administrators: Mapping[str, Any]) -> JsonObject:
    """Where the new kubeconfig leads: to the server of before, with the authority that the cluster has now."""
    authority = {_CA: administrators[_CA]} if administrators.get(_CA) else {}
    return {**present, **authority}


def _names(pem: bytes) -> tuple[str, str]:
    subject = x509.load_pem_x509_certificate(pem).subject
    users, groups = (
        [str(attribute.value) for attribute in subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    )
    return users[0] if len(users) == 1 else "", groups[0] if len(groups) == 1 else ""


def _is_of_role(role: str, found: RoleCertificate) -> bool:
    if role == "handler":
        return found.group == HANDLER_GROUP and bool(UserInfo(found.user, (found.group,)).node)
    wanted = {"api": (API_USER, API_GROUP), "controller": (CONTROLLER_USER, CONTROLLER_GROUP)}
    return (found.user, found.group) == wanted.get(role)
