"""The kinds of authentication.k8s.io and authorization.k8s.io: questions, which are answered and never stored."""

from __future__ import annotations

from typing import Final

from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.served_kinds import ASKED
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _review_kind(group: str, kind: str, *, namespaced: bool = False) -> BuiltinKind:
    return BuiltinKind(
        f"{group}.k8s.io",
        "v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=namespaced,
        verbs=ASKED,
        protobuf=IN_KUBERNETES,
    )


KINDS: Final = (
    _review_kind("authentication", "SelfSubjectReview"),
    _review_kind("authentication", "TokenReview"),
    _review_kind("authorization", "LocalSubjectAccessReview", namespaced=True),
    _review_kind("authorization", "SelfSubjectAccessReview"),
    _review_kind("authorization", "SelfSubjectRulesReview"),
    _review_kind("authorization", "SubjectAccessReview"),
)
