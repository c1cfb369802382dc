"""The kinds of certificates.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.rules import certificate_request_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, NONE, Column, at, text
from kvedge.standalone.apiserver.wire.human_ages import human_duration
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _show_requested_duration(request: JsonObject, now: datetime) -> str:
    seconds = at(request, "spec.expirationSeconds")
    return human_duration(seconds) if seconds else NONE


def _request_condition(request: JsonObject, now: datetime) -> str:
    words = [str(item.get("type")) for item in at(request, "status.conditions", [])]
    words += ["Issued"] if at(request, "status.certificate") else []
    return ",".join(words) or "Pending"


KINDS: Final = (
    BuiltinKind(
        "certificates.k8s.io",
        "v1",
        kind="CertificateSigningRequest",
        plural="certificatesigningrequests",
        namespaced=False,
        short_names=("csr",),
        subresources=("status", "approval"),
        columns=(
            NAME,
            AGE,
            text("SignerName", "spec.signerName"),
            text("Requestor", "spec.username"),
            Column("RequestedDuration", _show_requested_duration),
            Column("Condition", _request_condition),
        ),
        field_labels={"spec.signerName": ""},
        check=certificate_request_rules.check_request,
        check_update=certificate_request_rules.check_request_update,
        protobuf=IN_KUBERNETES,
    ),
)
