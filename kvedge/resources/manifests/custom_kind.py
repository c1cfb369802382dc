"""What a CustomResourceDefinition is made of: a kind's types and what kubectl shows of it.

Filled in by crd_manifest.py and data_volume_kinds.py. Touches nothing.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind

AGE: Final[JsonObject] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


class CustomKind(Struct, frozen=True):
    """One kind: its types and what kubectl shows of it."""

    kind: Kind
    description: str
    spec: type
    # None where there is nothing to report.
    status: type | None
    short_names: tuple[str, ...]
    columns: tuple[JsonObject, ...]
    has_status_subresource: bool
    # Spec fields without which the object means nothing.
    required_spec: tuple[str, ...] = ()
    default_spec: tuple[tuple[str, Any], ...] = ()
    default_status: tuple[tuple[str, Any], ...] = ()
    # Whether clients are told to use the stored version where they use another one.
    old_version_is_deprecated: bool = True
    # What clients are told when all versions are deprecated, with the version's name in it.
    deprecation: str = ""
    # Whether `kubectl scale` and autoscalers set its number, by the fields that all kinds with one have.
    has_scale: bool = False
    # The labels of the CRD: KubeVirt's operator brings the one of its own kind.
    labels: tuple[tuple[str, str], ...] = (("kubevirt.io", ""),)
    categories: tuple[str, ...] = ("all",)
    deprecated_versions: tuple[str, ...] = ("v1alpha3",)

    @property
    def name(self) -> str:
        """The name of its CRD."""
        return self.kind.qualified_plural


def column(name: str, path: str, priority: int = 0, type_: str = "string", text: str = "") -> JsonObject:
    """One column of `kubectl get`; those with a priority are shown with `-o wide`."""
    made: JsonObject = {"name": name, "type": type_, "jsonPath": path}
    if text:
        made["description"] = text
    return {**made, "priority": priority} if priority else made


def condition_column(name: str, condition: str, priority: int = 0) -> JsonObject:
    """The column with the status of a condition."""
    return column(name, f".status.conditions[?(@.type=='{condition}')].status", priority)
