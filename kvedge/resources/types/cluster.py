"""The kinds around Pods that kvedge reads and writes: Lease and IPAddress.

Only the fields that kvedge uses are typed: decoding drops the rest, so these kinds are changed by patches only.
Touches nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from kvedge.resources.codec import KubeStruct
from kvedge.resources.kinds import Kind
from kvedge.resources.meta import ObjectMeta


class LeaseSpec(KubeStruct, kw_only=True):
    """A Lease's spec; times in RFC 3339 with microseconds."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeStruct, kw_only=True):
    """coordination.k8s.io/v1 Lease."""

    KIND: ClassVar[Kind] = Kind("coordination.k8s.io", "v1", "Lease", "leases")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class ParentReference(KubeStruct, kw_only=True):
    """What an address belongs to."""

    resource: str
    name: str
    group: str = ""
    namespace: str = ""


class IpAddressSpec(KubeStruct, kw_only=True):
    """An IPAddress's spec."""

    parent_ref: ParentReference | None = None


class IpAddress(KubeStruct, kw_only=True):
    """networking.k8s.io/v1 IPAddress: its name is the address."""

    KIND: ClassVar[Kind] = Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", namespaced=False)
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: IpAddressSpec = field(default_factory=IpAddressSpec)
