"""What a Pod may say, and what of it may change.

Called by the rows of its kinds. Pure; the object has the types of its kind (`builtin_shape`). Rules yield their causes,
in Kubernetes' words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import QuantityError, parse_quantity
from kvedge.standalone.apiserver.kinds.rules.volume_rules import check_volumes
from kvedge.standalone.apiserver.schema.selectors import check_labels
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError, FieldErrorType
from kvedge.standalone.apiserver.wire.causes import (
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found_error,
    one_of,
    required_error,
)
from kvedge.standalone.apiserver.wire.json_values import clone, identity, same
from kvedge.standalone.apiserver.wire.told import cut, member_path

_MAX_ID: Final = 2**31 - 1
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
# Kubernetes has no such bound of its own; its nodes run 110 Pods.
_MOST_CONTAINERS: Final = 500
_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_amount_of_containers(pod: JsonObject) -> Iterator[FieldError]:
    """A new Pod has no more containers than one box would ever run; what looks at each of them is bounded by that.

    Containers cannot be added later, so that a Pod which is there already, of an older version, is left as it is.
    """
    spec = pod.get("spec") or {}
    for field in ("initContainers", "containers"):
        count = len(spec.get(field) or ())
        if count > _MOST_CONTAINERS:
            text = f"must have at most {_MOST_CONTAINERS} items"
            yield FieldError(FieldErrorType.TOO_MANY, f"spec.{field}", text, count)


def check_pod(pod: JsonObject) -> Iterator[FieldError]:
    """What is wrong with a Pod's spec."""
    spec = pod.get("spec") or {}
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    yield from check_volumes(spec.get("volumes") or [], "spec.volumes")
    if not spec.get("containers"):
        yield required_error("spec.containers")
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or []):
            path = f"spec.{field}[{index}]"
            yield from check_container(container, path, volumes)
            name = container.get("name")
            if name and name in seen:
                yield duplicate(f"{path}.name", name)
            seen.add(name)
    yield from _check_rest(spec)


def check_pod_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """What of a change of a Pod's spec is not allowed."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    kept = before.get("tolerations") or []
    added = after.get("tolerations") or []
    there = {identity(item) for item in added}
    if any(identity(item) not in there for item in kept):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", text)
    gates = {gate.get("name") for gate in before.get("schedulingGates") or []}
    for index, gate in enumerate(after.get("schedulingGates") or []):
        if gate.get("name") not in gates:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}]", text)
    if not same(_freeze(after, before), _freeze(before, before)):
        yield forbidden("spec", _IMMUTABLE)


def check_container(container: JsonObject, path: str, volumes: set[Any]) -> Iterator[FieldError]:
    """What is wrong with one container; `volumes` are the names that it can mount."""
    yield from _check_name(container.get("name"), f"{path}.name")
    image = container.get("image") or ""
    if not image:
        yield required_error(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    yield from _check_env(container.get("env") or [], f"{path}.env")
    yield from _check_ports(container.get("ports") or [], f"{path}.ports")
    yield from _check_mounts(container.get("volumeMounts") or [], f"{path}.volumeMounts", "mountPath", volumes)
    yield from _check_mounts(container.get("volumeDevices") or [], f"{path}.volumeDevices", "devicePath", volumes)
    yield from check_resources(container.get("resources") or {}, f"{path}.resources")
    yield from _check_identity(container.get("securityContext") or {}, f"{path}.securityContext")


def check_resources(resources: JsonObject, path: str) -> Iterator[FieldError]:
    """What is wrong with requests and limits: quantities, names, and requests above their limits."""
    amounts: dict[str, dict[str, Any]] = {"limits": {}, "requests": {}}
    for field, known in amounts.items():
        for name, value in (resources.get(field) or {}).items():
            yield from invalids(f"{path}.{field}", name, name_rules.label_key(name))
            try:
                amount = parse_quantity(value)
            except QuantityError:
                text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                yield invalid(member_path(f"{path}.{field}", name), value, text)
                continue
            if amount < 0:
                yield invalid(member_path(f"{path}.{field}", name), value, "must be greater than or equal to 0")
            known[name] = amount
    for name, amount in amounts["requests"].items():
        limit = amounts["limits"].get(name)
        if limit is not None and amount > limit:
            text = f"must be less than or equal to {cut(name)} limit of {resources['limits'][name]}"
            yield invalid(f"{path}.requests", str(resources["requests"][name]), text)


def _freeze(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The part of a spec that may not change, with what may change taken out."""
    frozen: JsonObject = clone(spec)
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        frozen.pop(field, None)
    for field in ("containers", "initContainers"):
        for container in frozen.get(field) or []:
            container.pop("image", None)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and frozen.get("terminationGracePeriodSeconds") == 1:
        frozen["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if not before.get("nodeName"):
        # The one who binds it to a node sets this, once.
        frozen.pop("nodeName", None)
    return {key: value for key, value in frozen.items() if value not in (None, [], {})}


def _check_rest(spec: JsonObject) -> Iterator[FieldError]:
    yield from one_of("spec.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    yield from one_of("spec.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    for field in ("terminationGracePeriodSeconds", "activeDeadlineSeconds"):
        seconds = spec.get(field)
        least = 1 if field == "activeDeadlineSeconds" else 0
        if seconds is not None and seconds < least:
            yield invalid(f"spec.{field}", seconds, f"must be greater than or equal to {least}")
    if spec.get("nodeName"):
        yield from invalids("spec.nodeName", spec["nodeName"], name_rules.dns_subdomain(spec["nodeName"]))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from invalids(f"spec.{field}", spec[field], name_rules.dns_label(spec[field]))
    yield from check_labels(spec.get("nodeSelector"), "spec.nodeSelector")
    yield from _check_identity(spec.get("securityContext") or {}, "spec.securityContext")
    for index, toleration in enumerate(spec.get("tolerations") or []):
        yield from _check_toleration(toleration, f"spec.tolerations[{index}]")


def _check_toleration(toleration: JsonObject, path: str) -> Iterator[FieldError]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if key:
        yield from invalids(f"{path}.key", key, name_rules.label_key(key))
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, text)
    yield from one_of(f"{path}.operator", operator, ("Equal", "Exists"))
    if operator == "Exists" and toleration.get("value"):
        yield invalid(f"{path}.operator", toleration, "value must be empty when `operator` is 'Exists'")
    yield from one_of(f"{path}.effect", toleration.get("effect"), ("NoSchedule", "PreferNoSchedule", "NoExecute"))


def _check_identity(context: JsonObject, path: str) -> Iterator[FieldError]:
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        number = context.get(field)
        if number is not None and not 0 <= number <= _MAX_ID:
            yield invalid(f"{path}.{field}", number, name_rules.between(0, _MAX_ID))
    seen: set[str] = set()
    for index, sysctl in enumerate(context.get("sysctls") or []):
        name = sysctl.get("name")
        if not name:
            yield required_error(f"{path}.sysctls[{index}].name")
        elif name in seen:
            yield duplicate(f"{path}.sysctls[{index}].name", name)
        seen.add(name)


def _check_name(name: Any, path: str) -> list[FieldError]:
    return invalids(path, name, name_rules.dns_label(name)) if name else [required_error(path)]


def _check_env(variables: list[JsonObject], path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        where, name = f"{path}[{index}]", variable.get("name")
        if not name:
            yield required_error(f"{where}.name")
        else:
            yield from invalids(f"{where}.name", name, name_rules.env_name(name))
        if variable.get("value") and variable.get("valueFrom"):
            yield invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty")


def _check_ports(ports: list[JsonObject], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", port.get("name")
        if name:
            yield from invalids(f"{where}.name", name, name_rules.port_name(name))
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        number = port.get("containerPort")
        if not number:
            yield required_error(f"{where}.containerPort")
        else:
            yield from invalids(f"{where}.containerPort", number, name_rules.port_number(number))
        if port.get("hostPort"):
            yield from invalids(f"{where}.hostPort", port["hostPort"], name_rules.port_number(port["hostPort"]))
        yield from one_of(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)


def _check_mounts(mounts: list[JsonObject], path: str, target: str, volumes: set[Any]) -> Iterator[FieldError]:
    targets: set[str] = set()
    for index, mount in enumerate(mounts):
        where, name, place = f"{path}[{index}]", mount.get("name"), mount.get(target)
        if not name:
            yield required_error(f"{where}.name")
        elif name not in volumes:
            yield not_found_error(f"{where}.name", name)
        if not place:
            yield required_error(f"{where}.{target}")
        elif place in targets:
            yield invalid(f"{where}.{target}", place, "must be unique")
        targets.add(place or "")
        sub_path = mount.get("subPath") or ""
        if sub_path.startswith("/"):
            yield invalid(f"{where}.subPath", sub_path, "must be a relative path")
        if ".." in sub_path.split("/"):
            yield invalid(f"{where}.subPath", sub_path, "must not contain '..'")
