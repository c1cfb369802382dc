"""What the webhooks of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration may say.

Called by the kinds' rows. Pure; the object has the types of its kind (`builtin_shape`). All causes at once.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.schema.cel_edge import CelError, check_condition
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType


def check_webhooks(configuration: JsonObject) -> list[FieldError]:
    """Everything wrong with the webhooks of a configuration."""
    errors = []
    names: set[str] = set()
    for index, entry in enumerate(configuration.get("webhooks") or []):
        path = f"webhooks[{index}]"
        name = entry.get("name") or ""
        if not name:
            errors.append(FieldError(FieldErrorType.REQUIRED, f"{path}.name"))
        elif name in names:
            errors.append(FieldError(FieldErrorType.DUPLICATE, f"{path}.name", bad_value=name))
        names.add(name)
        errors += _check_webhook(entry, path)
    return errors


def _check_webhook(entry: JsonObject, path: str) -> list[FieldError]:
    errors = []
    config = entry.get("clientConfig") or {}
    if bool(config.get("url")) == bool(config.get("service")):
        words = "exactly one of url or service is required"
        errors.append(FieldError(FieldErrorType.REQUIRED, f"{path}.clientConfig", words))
    elif config.get("url") and not str(config["url"]).startswith("https://"):
        words = "'https' is the only allowed URL scheme"
        errors.append(FieldError(FieldErrorType.INVALID, f"{path}.clientConfig.url", words, config["url"]))
    if "v1" not in (entry.get("admissionReviewVersions") or []):
        words = "must include at least one of v1"
        versions = entry.get("admissionReviewVersions")
        errors.append(FieldError(FieldErrorType.INVALID, f"{path}.admissionReviewVersions", words, versions))
    if entry.get("sideEffects") not in ("None", "NoneOnDryRun"):
        words = 'supported values: "None", "NoneOnDryRun"'
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, f"{path}.sideEffects", words, entry.get("sideEffects")))
    if entry.get("failurePolicy") not in ("Ignore", "Fail"):
        words = 'supported values: "Fail", "Ignore"'
        value = entry.get("failurePolicy")
        errors.append(FieldError(FieldErrorType.NOT_SUPPORTED, f"{path}.failurePolicy", words, value))
    seconds = entry.get("timeoutSeconds")
    if not isinstance(seconds, int) or not 1 <= seconds <= 30:
        words = "the timeout value must be between 1 and 30 seconds"
        errors.append(FieldError(FieldErrorType.INVALID, f"{path}.timeoutSeconds", words, seconds))
    return errors + _check_conditions(entry, path)


def _check_conditions(entry: JsonObject, path: str) -> list[FieldError]:
    errors = []
    for index, condition in enumerate(entry.get("matchConditions") or []):
        at = f"{path}.matchConditions[{index}]"
        if not condition.get("name"):
            errors.append(FieldError(FieldErrorType.REQUIRED, f"{at}.name", ""))
        try:
            check_condition(str(condition.get("expression") or ""))
        except CelError as error:
            words = f"compilation failed: {error}"
            errors.append(FieldError(FieldErrorType.INVALID, f"{at}.expression", words, condition.get("expression")))
    return errors
