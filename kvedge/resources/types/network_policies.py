"""NetworkPolicies (networking.k8s.io/v1), as far as they are read: nobody of kvedge writes one. Touches nothing."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import field

from kvedge.resources.codec import JsonObject, KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta

INGRESS: str = "Ingress"
EGRESS: str = "Egress"


class IpBlock(KubeStruct, kw_only=True):
    """A range of addresses, and smaller ones in it that do not count."""

    cidr: str = ""
    except_: list[str] = field(default=[], name="except")


class NetworkPolicyPeer(KubeStruct, kw_only=True):
    """The other end of traffic: some Pods, or a range of addresses."""

    pod_selector: JsonObject | None = None
    namespace_selector: JsonObject | None = None
    ip_block: IpBlock | None = None


class NetworkPolicyPort(KubeStruct, kw_only=True):
    """A port, by number or by name, or a range of ports."""

    protocol: str = "TCP"
    port: int | str | None = None
    end_port: int | None = None


class NetworkPolicyIngressRule(KubeStruct, kw_only=True):
    """Traffic that may reach the Pods."""

    ports: list[NetworkPolicyPort] = []
    peers: list[NetworkPolicyPeer] = field(default=[], name="from")


class NetworkPolicyEgressRule(KubeStruct, kw_only=True):
    """Traffic that may leave the Pods."""

    ports: list[NetworkPolicyPort] = []
    peers: list[NetworkPolicyPeer] = field(default=[], name="to")


class NetworkPolicySpec(KubeStruct, kw_only=True):
    """The Pods and the traffic."""

    pod_selector: JsonObject = msgspec.field(default_factory=dict)
    ingress: list[NetworkPolicyIngressRule] = []
    egress: list[NetworkPolicyEgressRule] = []
    policy_types: list[str] = []


class NetworkPolicy(KubeStruct, kw_only=True):
    """networking.k8s.io/v1 NetworkPolicy."""

    KIND: ClassVar[Kind] = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NetworkPolicySpec = field(default_factory=NetworkPolicySpec)
