"""What the aggregated API answers when it refuses: metav1.Status, in KubeVirt's words and codes.

Raised by everything behind a subresource, rendered in one place. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import UserInfo

VM: Final = "virtualmachine.kubevirt.io"
VMI: Final = "virtualmachineinstance.kubevirt.io"

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Refusal(Exception):
    """The call is refused: HTTP status and message; `plain` answers as text, as KubeVirt does for some calls.

    `causes` are metav1.StatusCause documents.
    """

    def __init__(self, code: int, message: str, *, plain: bool = False, causes: Sequence[JsonObject] = ()) -> None:
        super().__init__(message)
        self.causes = causes
        self.code = code
        self.message = message
        self.plain = plain

    def document(self) -> JsonObject:
        """The metav1.Status."""
        document: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": _REASONS.get(self.code, ""),
            "code": self.code,
        }
        if self.causes:
            document["details"] = {"causes": list(self.causes)}
        return document


def conflict(resource: str, name: str, detail: str) -> Refusal:
    """The object is not in a state for it."""
    return Refusal(409, f'Operation cannot be fulfilled on {resource} "{name}": {detail}')


def not_found_refusal(resource: str, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(404, f'{resource} "{name}" not found')


def bad_request(detail: str) -> Refusal:
    """The call makes no sense."""
    return Refusal(400, detail)


def internal(detail: str) -> Refusal:
    """It went wrong here."""
    return Refusal(500, detail)


def unprocessable(detail: str) -> Refusal:
    """It would come to an object that may not be, or somebody else was faster."""
    return Refusal(422, detail)


def not_there_yet(what: str, release: str) -> Refusal:
    """KubeVirt has it and kvedge does not, for now."""
    return Refusal(501, f"{what}: not supported by kvedge {release}")


def forbidden_here(resource: str, name: str, detail: str) -> Refusal:
    """The object itself does not allow it, to any user."""
    return Refusal(403, f'{resource} "{name}" is forbidden: {detail}')


def forbidden(user: UserInfo, verb: str, resource: str, namespace: str, name: str) -> Refusal:
    """The user may not; worded as the API server words it."""
    plural, _, rest = resource.partition("/")
    subject = f'{plural}.subresources.kubevirt.io "{name}" is forbidden: User "{user.username}" cannot {verb} resource'
    asked = f"{plural}/{rest}" if rest else plural
    return Refusal(403, f'{subject} "{asked}" in API group "subresources.kubevirt.io" in the namespace "{namespace}"')
