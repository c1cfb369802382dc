"""What the core kinds besides Pods may say, and what of them may change.

Called by the rows of its kinds. Pure; the objects have the types of their kinds (`builtin_shape`). All causes at once.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.rules.service_rules import PROTOCOLS
from kvedge.standalone.apiserver.schema.metadata_rules import check_immutable
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import (
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported_error,
    one_of,
    required_error,
    too_long,
)
from kvedge.standalone.apiserver.wire.json_values import same
from kvedge.standalone.apiserver.wire.told import member_path

_MAX_DATA: Final = 1024 * 1024
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
# A Secret that the server writes a token of a service account into, which an annotation names.
ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"
ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"
# The keys that a Secret of each type must have.
_SECRET_KEYS: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def check_secret(secret: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a Secret."""
    data = secret.get("data") or {}
    for key in data:
        yield from invalids(member_path("data", key), key, name_rules.config_key(key))
    if sum(len(value) * 3 // 4 for value in data.values()) > _MAX_DATA:
        yield too_long("data", _MAX_DATA)
    for key in _SECRET_KEYS.get(secret.get("type") or "", ()):
        if key not in data:
            yield required_error(member_path("data", key))
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    if secret.get("type") == ACCOUNT_TOKEN and not annotations.get(ACCOUNT_ANNOTATION):
        yield required_error(member_path("metadata.annotations", ACCOUNT_ANNOTATION))


def check_secret_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A Secret keeps its type, and an immutable one everything."""
    yield from check_immutable(new.get("type"), old.get("type"), "type")
    yield from _check_frozen_data(new, old, ("data",))


def check_config_map(config_map: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a ConfigMap."""
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for field, values in (("data", data), ("binaryData", binary)):
        for key in values:
            yield from invalids(member_path(field, key), key, name_rules.config_key(key))
    for key in data:
        if key in binary:
            yield invalid(member_path("data", key), key, "duplicate of key present in binaryData")
    size = sum(len(value.encode()) for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
    if size > _MAX_DATA:
        yield too_long("", _MAX_DATA)


def check_config_map_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """An immutable ConfigMap keeps everything."""
    yield from _check_frozen_data(new, old, ("data", "binaryData"))


def check_lease(lease: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a Lease."""
    spec = lease.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


def check_node(node: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a Node: its taints."""
    seen: set[tuple[object, object]] = set()
    for index, taint in enumerate((node.get("spec") or {}).get("taints") or []):
        path, key, effect = f"spec.taints[{index}]", taint.get("key") or "", taint.get("effect")
        yield from invalids(f"{path}.key", key, name_rules.label_key(key))
        yield from invalids(f"{path}.value", taint.get("value"), name_rules.label_value(taint.get("value") or ""))
        if effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
            yield not_supported_error(f"{path}.effect", effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))
        if (key, effect) in seen:
            yield duplicate(path, taint)
        seen.add((key, effect))


def check_event(event: JsonObject) -> Iterator[FieldError]:
    """An Event stands in the namespace of what it is about; events of cluster-wide objects in the default one."""
    field = "regarding" if "regarding" in event else "involvedObject"
    namespace = (event.get("metadata") or {}).get("namespace")
    about = (event.get(field) or {}).get("namespace")
    if about and about != namespace:
        yield invalid(f"{field}.namespace", about, "does not match event.namespace")
    elif not about and namespace not in {"default", "kube-system", None}:
        yield invalid(f"{field}.namespace", about or "", "does not match event.namespace")


def check_endpoints(endpoints: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with Endpoints: addresses and ports."""
    for index, subset in enumerate(endpoints.get("subsets") or []):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required_error(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for at, address in enumerate(subset.get(field) or []):
                if not _is_address(address.get("ip") or ""):
                    text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                    yield invalid(f"{path}.{field}[{at}].ip", address.get("ip") or "", text)
        for at, port in enumerate(subset.get("ports") or []):
            yield from invalids(
                f"{path}.ports[{at}].port", port.get("port"), name_rules.port_number(port.get("port") or 0)
            )


def check_endpoint_slice(endpoint_slice: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with an EndpointSlice."""
    kind = endpoint_slice.get("addressType")
    if not kind:
        yield required_error("addressType")
    yield from one_of("addressType", kind, _ADDRESS_TYPES)
    for index, endpoint in enumerate(endpoint_slice.get("endpoints") or []):
        if not endpoint.get("addresses"):
            yield required_error(f"endpoints[{index}].addresses", "must contain at least 1 address")
        for at, address in enumerate(endpoint.get("addresses") or []):
            yield from _check_family(kind, address, f"endpoints[{index}].addresses[{at}]")
    for index, port in enumerate(endpoint_slice.get("ports") or []):
        number = port.get("port")
        if number is not None:
            # None stands for all ports.
            yield from invalids(f"ports[{index}].port", number, name_rules.port_number(number))
        yield from one_of(f"ports[{index}].protocol", port.get("protocol"), PROTOCOLS)


def _check_family(kind: object, address: str, path: str) -> Iterator[FieldError]:
    family = {"IPv4": 4, "IPv6": 6}.get(str(kind))
    if family is None:
        return
    if not _is_address(address) or ipaddress.ip_address(address).version != family:
        example = "10.9.8.7" if family == 4 else "2001:db8::ffff"
        yield invalid(path, address, f"must be an {kind} address, (e.g. {example})")


def check_ip_address(address: JsonObject) -> Iterator[FieldError]:
    """An IPAddress is named by the address itself and belongs to something."""
    name = (address.get("metadata") or {}).get("name") or ""
    if not _is_address(name) or str(ipaddress.ip_address(name)) != name:
        yield invalid("metadata.name", name, "must be an IP address in canonical form")
    parent = (address.get("spec") or {}).get("parentRef")
    if parent is None:
        yield required_error("spec.parentRef")
        return
    for field in ("resource", "name"):
        if not parent.get(field):
            yield required_error(f"spec.parentRef.{field}")


def check_ip_address_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """An address does not change hands: it is released and taken again."""
    after, before = (item.get("spec") or {} for item in (new, old))
    yield from check_immutable(after.get("parentRef"), before.get("parentRef"), "spec.parentRef")


def check_role_binding_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """A binding keeps its role: another role needs another binding."""
    if not same(new.get("roleRef"), old.get("roleRef")):
        yield invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def _check_frozen_data(new: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> Iterator[FieldError]:
    if not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden("immutable", text)
    for field in fields:
        if not same(new.get(field) or {}, old.get(field) or {}):
            yield forbidden(field, text)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
