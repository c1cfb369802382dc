"""The rights that a DataVolume needs to copy a claim of another namespace, and the refusal without them.

Called by clone_admission.py, which asks the API server. Works on documents as they came; touches nothing. The rights
are CDI's: to create `datavolumes/source` in the source's namespace, or Pods, which see its claims anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.json_patch_plan import difference
from kvedge.resources.codec import JsonObject
from kvedge.resources.data_volume_names import CDI_GROUP
from kvedge.resources.disks.clone_grants import CLONE_ACCOUNT, CLONE_TOKEN
from kvedge.resources.role_users import UserInfo


class CloneAsked(Struct, frozen=True):
    """What a DataVolume copies, if anything: a claim of the namespace `claims`, or what a DataSource points at."""

    claims: str = ""
    data_source: tuple[str, str] | None = None


def clone_asked(document: JsonObject, namespace: str) -> CloneAsked:
    """What a DataVolume of this namespace copies."""
    spec = _object(document, "spec")
    pvc = _object(_object(spec, "source"), "pvc")
    if pvc:
        return CloneAsked(claims=_text(pvc, "namespace") or namespace)
    reference = _object(spec, "sourceRef")
    if reference:
        return CloneAsked(data_source=(_text(reference, "namespace") or namespace, _text(reference, "name")))
    return CloneAsked()


def source_of(document: JsonObject, namespace: str) -> tuple[str, str]:
    """The namespace of the claim that a DataSource points at, or the name of the DataSource beside it that does."""
    source = _object(_object(document, "spec"), "source")
    pvc = _object(source, "pvc")
    return (_text(pvc, "namespace") or namespace) if pvc else "", _text(_object(source, "dataSource"), "name")


def whose_rights(request: AdmissionRequest) -> UserInfo:
    """The maker of a DataVolume: the user, or for a VM's template, which the controller makes, a service account."""
    if not request.user.is_controller:
        return request.user
    annotations = _annotations(request.object or {})
    account = str(annotations.get(CLONE_ACCOUNT) or "default")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{request.namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{request.namespace}:{account}", groups)


def sufficient_rights(namespace: str) -> Iterator[Mapping[str, str]]:
    """Each of these is enough to copy claims of a namespace."""
    yield {
        "namespace": namespace,
        "verb": "create",
        "group": CDI_GROUP,
        "version": "v1beta1",
        "resource": "datavolumes",
        "subresource": "source",
    }
    yield {"namespace": namespace, "verb": "create", "group": "", "version": "v1", "resource": "pods"}


def refusal_words(user: UserInfo, namespace: str) -> str:
    """Why it may not be copied, and what to do."""
    return (
        f"User {user.username} has insufficient permissions in clone source namespace {namespace}: it needs the verb"
        f" create on datavolumes/source of {CDI_GROUP} there, as a RoleBinding of kubevirt.io:edit in {namespace} gives"
    )


def nameless_words(namespace: str) -> str:
    """Why one whose name the API server makes up copies nothing from there, and what to do."""
    return f"a clone from namespace {namespace} is granted to a DataVolume by its name: set metadata.name instead"


def with_token(document: JsonObject, token: str) -> list[JsonObject]:
    """The JSON patch by which a DataVolume carries this token and no other; none at all when it is empty."""
    metadata = _object(document, "metadata")
    kept = {key: value for key, value in _annotations(document).items() if key != CLONE_TOKEN}
    if token:
        kept[CLONE_TOKEN] = token
    if kept == _annotations(document):
        return []
    return list(difference(document, {**document, "metadata": {**metadata, "annotations": kept}}))


def _annotations(document: JsonObject) -> JsonObject:
    return _object(_object(document, "metadata"), "annotations")


def _object(document: JsonObject, name: str) -> JsonObject:
    member = document.get(name)
    return member if isinstance(member, dict) else {}


def _text(document: JsonObject, name: str) -> str:
    member = document.get(name)
    return member if isinstance(member, str) else ""
