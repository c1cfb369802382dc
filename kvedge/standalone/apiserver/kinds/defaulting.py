"""Filling in what an object leaves out: small steps that the defaults of several kinds share.

Called by the functions that the rows of built-in kinds name. Pure; each function alters the object it gets.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject


def spec_of(obj: JsonObject) -> JsonObject:
    """The spec of an object; an empty one is put there when it has none."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def set_missing(target: JsonObject, **defaults: object) -> None:
    """Set each field that is absent or null."""
    for key, value in defaults.items():
        if target.get(key) is None:
            target[key] = value


def set_service_port(config: object) -> None:
    """Set the port of the Service that a webhook or an APIService names."""
    if isinstance(config, dict) and isinstance(config.get("service"), dict):
        set_missing(config["service"], port=443)
