"""What the controller believes of a grant, as it copies without asking anybody once more."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from kvedge.controller.datavolumes.granted_clones import GrantedClones
from kvedge.kube.errors import NotFound
from kvedge.resources.disks.clone_grants import CLONE_TOKEN, CloneGrant, grant_key, sign_grant
from kvedge.resources.types.core import Secret
from kvedge.resources.types.data_volumes import DataVolume
from kvedge.runtime.clock import rfc3339
from kvedge.runtime.tls.certificates import CertificateAuthority
from tests.support.builders import NOW
from tests.support.clocks import TurnedClock

AUTHORITY = CertificateAuthority.create("uploads", NOW)
KEY = grant_key(AUTHORITY.key_pem)


class Server:
    """Has the authority, or not."""

    def __init__(self, authority: CertificateAuthority | None = AUTHORITY) -> None:
        self.authority = authority
        self.reads = 0

    def get(self, cls: type, namespace: str, name: str) -> Secret:
        self.reads += 1
        if self.authority is None:
            raise NotFound(404, "NotFound", name)
        parts = {"tls.crt": self.authority.certificate_pem, "tls.key": self.authority.key_pem}
        return Secret(data={key: base64.b64encode(value).decode() for key, value in parts.items()})


def judged(token: str, source: str = "golden", server: Server | None = None, **metadata: Any) -> str:
    dv = DataVolume()
    dv.metadata.name, dv.metadata.namespace = "disk", "shop"
    dv.metadata.creation_timestamp = rfc3339(NOW)
    dv.metadata.annotations = {CLONE_TOKEN: token} if token else {}
    for name, value in metadata.items():
        setattr(dv.metadata, name, value)
    return GrantedClones(server or Server(), TurnedClock()).problem(dv, source)  # type: ignore[arg-type]


TOKEN = sign_grant(KEY, CloneGrant("shop", "disk", ("golden",)), NOW)


def test_a_grant_of_the_api_role_is_believed() -> None:
    assert judged(TOKEN) == ""


CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "there is none": ("", {}, "it has none"),
    "somebody else has signed it": (sign_grant(b"guess", CloneGrant("shop", "disk", ("golden",)), NOW), {}, "not ours"),
    "it is for another namespace's claims": (TOKEN, {"namespace_": "secret"}, "it is for golden"),
    "it is of another DataVolume": (TOKEN, {"name": "other"}, "another DataVolume's"),
    "it is of a DataVolume elsewhere": (TOKEN, {"namespace": "evil"}, "another DataVolume's"),
    "it is of an earlier DataVolume": (
        TOKEN,
        {"creation_timestamp": rfc3339(NOW + timedelta(hours=1))},
        "earlier DataVolume",
    ),
    "the server has not said when it was made": (TOKEN, {"creation_timestamp": None}, "it has none"),
}


@pytest.mark.parametrize("case", CASES)
def test_everything_else_copies_nothing_and_says_what_to_do(case: str) -> None:
    token, metadata, told = CASES[case]
    namespace = metadata.get("namespace_", "golden")
    text = judged(token, namespace, **{key: value for key, value in metadata.items() if key != "namespace_"})
    assert told in text
    assert f"somebody who may create datavolumes/source in {namespace}" in text


def test_without_an_authority_nothing_was_granted() -> None:
    assert "not ours" in judged(TOKEN, server=Server(None))
