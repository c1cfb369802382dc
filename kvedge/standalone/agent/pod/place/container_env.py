"""A container's environment: values, and what they are taken from.

Called by the Pod loop before a start. Reads Secrets and ConfigMaps through the reader it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvedge.resources.types.core import Container, EnvVar, Pod
from kvedge.standalone.agent.container.container_plan import ContainerPlanError, expand
from kvedge.standalone.agent.pod.place.pod_place import secret_text
from kvedge.standalone.agent.pod.place.volume_files import ObjectReader


def container_env(
    pod: Pod, container: Container, reader: ObjectReader, addresses: tuple[str, ...], host_address: str
) -> dict[str, str]:
    """All variables of a container, in order, each seeing those before it.

    Raises:
        ContainerPlanError: for a source that is not there or not supported: CreateContainerConfigError.
        KubeError: when the API cannot be asked.
    """
    facts = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.podIP": next(iter(addresses), ""),
        "status.podIPs": ",".join(addresses),
        "status.hostIP": host_address,
        "status.hostIPs": host_address,
    }
    found: dict[str, str] = {}
    for item in container.env:
        if item.value_from is None:
            found[item.name] = expand(item.value, found)
            continue
        value = _read_source(pod, item, item.value_from, facts, reader)
        if value is not None:
            found[item.name] = value
    return found


def _read_source(
    pod: Pod, item: EnvVar, source: Mapping[str, Any], facts: Mapping[str, str], reader: ObjectReader
) -> str | None:
    namespace = pod.metadata.namespace
    if "fieldRef" in source:
        return _field(pod, item, str(source["fieldRef"].get("fieldPath", "")), facts)
    if "secretKeyRef" in source:
        wanted = source["secretKeyRef"]
        secret = reader.secret(namespace, wanted.get("name", ""))
        value = secret_text(secret, wanted.get("key", "")) if secret else None
        return _require(value, "secret", wanted)
    if "configMapKeyRef" in source:
        wanted = source["configMapKeyRef"]
        config_map = reader.config_map(namespace, wanted.get("name", ""))
        return _require(config_map.data.get(wanted.get("key", "")) if config_map else None, "configmap", wanted)
    raise ContainerPlanError(f"env {item.name}: its valueFrom is not supported on one box: {', '.join(source)}")


def _field(pod: Pod, item: EnvVar, path: str, facts: Mapping[str, str]) -> str:
    if path in facts:
        return facts[path]
    for prefix, values in (
        ("metadata.labels", pod.metadata.labels),
        ("metadata.annotations", pod.metadata.annotations),
    ):
        if path.startswith(f"{prefix}['") and path.endswith("']"):
            return values.get(path[len(prefix) + 2 : -2], "")
    raise ContainerPlanError(f"env {item.name}: fieldPath {path} is not supported")


def _require(value: str | None, kind: str, wanted: Mapping[str, Any]) -> str | None:
    if value is None and not wanted.get("optional"):
        raise ContainerPlanError(f"couldn't find key {wanted.get('key')} in {kind} {wanted.get('name')}")
    return value
