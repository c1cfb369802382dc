"""What an APIService may say.

Called by the kind's row. Pure; the object has the types of its kind (`builtin_shape`). All causes at once.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType


def check_api_service(api_service: JsonObject) -> list[FieldError]:
    """Everything wrong with an APIService."""
    spec = api_service.get("spec") or {}
    errors = []
    name, expected = api_service["metadata"].get("name"), f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if name != expected:
        words = f'must be `spec.version+"."+spec.group`: "{expected}"'
        errors.append(FieldError(FieldErrorType.INVALID, "metadata.name", words, name))
    for field, highest in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field) or 0
        if not 0 < value <= highest:
            words = f"must be positive and less than {highest}"
            errors.append(FieldError(FieldErrorType.INVALID, f"spec.{field}", words, value))
    service = spec.get("service")
    if service is None:
        return errors
    for field in ("namespace", "name"):
        if not service.get(field):
            errors.append(FieldError(FieldErrorType.REQUIRED, f"spec.service.{field}"))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        words = "may not be true if caBundle is present"
        errors.append(FieldError(FieldErrorType.INVALID, "spec.insecureSkipTLSVerify", words, True))
    return errors
