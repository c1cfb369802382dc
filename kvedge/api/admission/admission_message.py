"""admission.k8s.io/v1 AdmissionReview: what an API server asks, and what it is answered.

Called by admission_server.py. Touches nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Literal

import msgspec

from kvedge.api.admission.rules.causes import Cause, cut_list, summary
from kvedge.resources.codec import DecodeError, JsonObject, KubeStruct, decode_json
from kvedge.resources.role_users import UserInfo

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class GroupVersionResource(KubeStruct, kw_only=True):
    """Which resource is written."""

    group: str = ""
    version: str = ""
    resource: str = ""


class AdmissionUser(KubeStruct, kw_only=True):
    """Who writes."""

    username: str = ""
    uid: str = ""
    groups: list[str] = msgspec.field(default_factory=list)
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class AdmissionRequest(KubeStruct, kw_only=True):
    """One write; `object` is null for a delete, `old_object` for a create."""

    uid: str
    operation: Operation
    resource: GroupVersionResource = msgspec.field(default_factory=GroupVersionResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: AdmissionUser = msgspec.field(default_factory=AdmissionUser)
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    dry_run: bool | None = None

    @property
    def user(self) -> UserInfo:
        """Who writes."""
        info = self.user_info
        return UserInfo(info.username, tuple(info.groups), info.uid, info.extra)


class _Review(KubeStruct, kw_only=True):
    api_version: str
    kind: str
    request: AdmissionRequest


def parse_review(body: bytes) -> AdmissionRequest:
    """The request in an AdmissionReview.

    Raises:
        DecodeError: when the body is none, or one of another version.
    """
    review = decode_json(_Review, body)
    if (review.api_version, review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise DecodeError("apiVersion", f"{review.api_version} {review.kind} is no admission.k8s.io/v1 AdmissionReview")
    return review.request


def verdict(uid: str, causes: Sequence[Cause], warnings: Sequence[str] = ()) -> JsonObject:
    """The answer of a validating webhook: allowed when there is no cause; else 422 with them, up to a number."""
    response: JsonObject = {"uid": uid, "allowed": not causes}
    if causes:
        response["status"] = {
            "metadata": {},
            "status": "Failure",
            "message": summary(causes),
            "reason": "Invalid",
            "details": {"causes": [cause.document() for cause in cut_list(causes)]},
            "code": 422,
        }
    if warnings:
        response["warnings"] = list(warnings)
    return _review(response)


def refusal(uid: str, code: int, message: str) -> JsonObject:
    """The answer of a validating webhook that says no for a reason that is no field's."""
    reason = {400: "BadRequest", 403: "Forbidden", 500: "InternalError"}.get(code, "")
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return _review({"uid": uid, "allowed": False, "status": status})


def forbidden(uid: str, field: str, text: str) -> JsonObject:
    """The answer where the user may not have what a field asks for."""
    answer = refusal(uid, 403, text)
    cause = {"reason": "FieldValueForbidden", "message": text, "field": field}
    answer["response"]["status"]["details"] = {"causes": [cause]}
    return answer


def mutation(uid: str, patch: Sequence[JsonObject]) -> JsonObject:
    """The answer of a mutating webhook: always allowed, as saying no is the other one's part."""
    response: JsonObject = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(list(patch))).decode("ascii")
    return _review(response)


def _review(response: JsonObject) -> JsonObject:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
