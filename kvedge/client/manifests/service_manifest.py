"""The Service of `kvedge expose`.

Pure: what virtctl makes of the same flags and object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kvedge.client.errors import RefusedError, UsageError
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import VMI_ID
from kvedge.resources.values.label_values import as_label_value

_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer")
_FAMILIES: Final = {
    "": (),
    "ipv4": ("IPv4",),
    "ipv6": ("IPv6",),
    "ipv4,ipv6": ("IPv4", "IPv6"),
    "ipv6,ipv4": ("IPv6", "IPv4"),
}
_POLICIES: Final = ("", "SingleStack", "PreferDualStack", "RequireDualStack")
_PROTOCOLS: Final = ("TCP", "UDP")


class ServiceOptions(Struct, frozen=True):
    """The flags of `expose`; empty for what was not given."""

    name: str
    port: int = 0
    target_port: str = ""
    type: str = "ClusterIP"
    protocol: str = "TCP"
    port_name: str = ""
    cluster_ip: str = ""
    external_ip: str = ""
    ip_family: str = ""
    ip_family_policy: str = ""


def service_manifest(options: ServiceOptions, exposed: JsonObject) -> JsonObject:
    """A Service in front of a VM, VMI or ReplicaSet, which owns it.

    Raises:
        ClientError: in virtctl's words.
    """
    _check(options)
    ports = [_port(options)] if options.port else _list_declared_ports(exposed)
    if not ports:
        raise UsageError("couldn't find port via --port flag or introspection: add --port, such as --port=22")
    spec: JsonObject = {"type": options.type, "selector": _selector(exposed), "ports": ports}
    if options.cluster_ip:
        spec["clusterIP"] = options.cluster_ip
    if options.external_ip:
        spec["externalIPs"] = [options.external_ip]
    if families := _FAMILIES[options.ip_family.lower()]:
        spec["ipFamilies"] = list(families)
    if options.ip_family_policy:
        spec["ipFamilyPolicy"] = options.ip_family_policy
    metadata = exposed["metadata"]
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": exposed["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": options.name, "namespace": metadata["namespace"], "ownerReferences": [owner]},
        "spec": spec,
    }


def _check(options: ServiceOptions) -> None:
    _check_choice("protocol", options.protocol, _PROTOCOLS, "unknown protocol")
    _check_choice("type", options.type, _TYPES, "unknown service type")
    _check_choice("ip-family", options.ip_family.lower(), tuple(_FAMILIES), "unknown IPFamily/s")
    _check_choice("ip-family-policy", options.ip_family_policy, _POLICIES, "unknown IPFamilyPolicy/s")


def _check_choice(flag: str, value: str, known: Sequence[str], words: str) -> None:
    if value not in known:
        raise UsageError(f"{words}: {value}; --{flag} is one of {', '.join(item for item in known if item)}")


def _port(options: ServiceOptions) -> JsonObject:
    port: JsonObject = {"port": options.port, "protocol": options.protocol}
    if options.port_name:
        port["name"] = options.port_name
    if options.target_port:
        text = options.target_port
        port["targetPort"] = int(text) if text.isascii() and text.isdigit() else text
    return port


def _list_declared_ports(exposed: JsonObject) -> list[JsonObject]:
    """The ports of the interface on the Pod's network."""
    spec = exposed["spec"] if exposed["kind"] == "VirtualMachineInstance" else exposed["spec"]["template"]["spec"]
    on_pod = {network["name"] for network in spec.get("networks") or () if "pod" in network}
    interfaces = ((spec.get("domain") or {}).get("devices") or {}).get("interfaces") or ()
    ports = [port for nic in interfaces if nic.get("name") in on_pod for port in nic.get("ports") or ()]
    return [
        {"name": f"port-{number}", "port": port["port"], "protocol": port.get("protocol") or "TCP"}
        for number, port in enumerate(ports, 1)
    ]


def _selector(exposed: JsonObject) -> dict[str, str]:
    if exposed["kind"] != "VirtualMachineInstanceReplicaSet":
        return {VMI_ID: as_label_value(exposed["metadata"]["name"])}
    selector = exposed["spec"].get("selector") or {}
    if selector.get("matchExpressions"):
        raise RefusedError("cannot expose VirtualMachineInstance ReplicaSet with match expressions")
    return dict(selector.get("matchLabels") or {})
