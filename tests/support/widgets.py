"""The custom kind that the suite works with: validated, defaulted, pruned, with status and scale, in two versions."""

from __future__ import annotations

from typing import Any

from tests.support.builders import pod_document

GROUP = "/apis/example.com/v1"

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "replicas": {"type": "integer"},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
            },
        },
    },
}


def _version(name: str, storage: bool) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ],
        "schema": {"openAPIV3Schema": _SCHEMA},
    }


WIDGET_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "shortNames": ["wg"],
            "categories": ["all"],
        },
        "scope": "Namespaced",
        "versions": [_version("v1", storage=True), _version("v1alpha1", storage=False)],
    },
}


def widgets(namespace: str, name: str = "", version: str = "v1") -> str:
    """The path of the collection, or of one object (and its subresource)."""
    path = f"/apis/example.com/{version}/namespaces/{namespace}/widgets"
    return f"{path}/{name}" if name else path


def widget(name: str, size: int = 1, version: str = "v1", **spec: Any) -> dict[str, Any]:
    """A Widget."""
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }


def config_maps(namespace: str, name: str = "") -> str:
    """The path of the namespace's ConfigMaps, or of one."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    return f"{path}/{name}" if name else path


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pods(namespace: str, name: str = "") -> str:
    """The path of the namespace's Pods, or of one."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return f"{path}/{name}" if name else path


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A Pod of one container."""
    main = {"name": "main", "image": "example.com/image:1"}
    return pod_document(main, metadata={"name": name}, **{"terminationGracePeriodSeconds": 5, **spec})
