"""AdmissionRequests for tests, around the documents of `builders`."""

from __future__ import annotations

from kvedge.api.admission.admission_message import AdmissionRequest, AdmissionUser, GroupVersionResource
from kvedge.resources.codec import JsonObject


def request(
    document: JsonObject | None,
    old: JsonObject | None = None,
    user: str = "alice",
    groups: list[str] | None = None,
) -> AdmissionRequest:
    """A write of that document: a create, or an update of `old`."""
    shown = document if document is not None else old or {}
    kind = shown["kind"].lower()
    resource = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    group, _, version = str(shown.get("apiVersion") or "kubevirt.io/v1").rpartition("/")
    return AdmissionRequest(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        resource=GroupVersionResource(group=group, version=version, resource=resource),
        name=shown["metadata"].get("name", ""),
        namespace="default",
        user_info=AdmissionUser(username=user, groups=groups or []),
        object=document,
        old_object=old,
    )
