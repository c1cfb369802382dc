"""What a NetworkPolicy may say.

Called by the kind's row. Pure; the object has the types of its kind (`builtin_shape`). All causes at once, in
Kubernetes' words.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.schema.selectors import check_label_selector
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import forbidden, invalid, invalids, not_supported_error, required_error

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_POLICY_TYPES: Final = ("Ingress", "Egress")
_NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZERO: Final = re.compile(r"(?P<before>^|[./])0+(?P<digit>[0-9])")
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def check_network_policy(policy: JsonObject) -> Iterator[FieldError]:
    """Everything wrong with a NetworkPolicy."""
    spec = policy.get("spec") or {}
    yield from check_label_selector(spec.get("podSelector"), "spec.podSelector")
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(way) or []):
            path = f"spec.{way}[{index}]"
            for at, port in enumerate(rule.get("ports") or []):
                yield from _check_port(port, f"{path}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or []):
                yield from _check_peer(peer, f"{path}.{peers}[{at}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > len(_POLICY_TYPES):
        yield invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in _POLICY_TYPES:
            yield not_supported_error(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)


def _check_port(port: JsonObject, path: str) -> Iterator[FieldError]:
    if port.get("protocol") not in (None, *_PROTOCOLS):
        yield not_supported_error(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        yield from invalids(f"{path}.port", first, name_rules.port_number(first))
        if last is not None and last < first:
            yield invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
        if last is not None:
            yield from invalids(f"{path}.endPort", last, name_rules.port_number(last))
        return
    if last is not None:
        why = "not specified" if first is None else "non-numeric"
        yield invalid(f"{path}.endPort", last, f"may not be specified when `port` is {why}")
    if first is not None:
        yield from invalids(f"{path}.port", first, name_rules.port_name(first))


def _check_peer(peer: JsonObject, path: str) -> Iterator[FieldError]:
    named = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    for selector in ("podSelector", "namespaceSelector"):
        yield from check_label_selector(peer.get(selector), f"{path}.{selector}")
    if "ipBlock" in named:
        yield from _check_block(peer["ipBlock"], f"{path}.ipBlock")
    if not named:
        yield required_error(path, "must specify a peer")
    elif "ipBlock" in named and len(named) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _check_block(block: JsonObject, path: str) -> Iterator[FieldError]:
    text = block.get("cidr") or ""
    if not text:
        yield required_error(f"{path}.cidr")
        return
    complaint = _cidr_complaint(text)
    if complaint:
        yield invalid(f"{path}.cidr", text, complaint)
        return
    whole = ipaddress.ip_network(text)
    for index, inner in enumerate(block.get("except") or []):
        complaint = _cidr_complaint(inner) or _outside_complaint(whole, ipaddress.ip_network(inner))
        if complaint:
            yield invalid(f"{path}.except[{index}]", inner, complaint)


def _cidr_complaint(text: str) -> str:
    """Why a text is no range of addresses, or nothing. Forms that programs read in different ways are none, either."""
    address, _, length = text.rpartition("/")
    plain = _LEADING_ZERO.sub(r"\g<before>\g<digit>", f"/{length}" if ":" in address else text)
    plain = address + plain if ":" in address else plain
    try:
        network = ipaddress.ip_network(plain, strict=False)
    except ValueError:
        return _NO_CIDR
    if not address or "%" in text or not length.isdecimal():
        return _NO_CIDR
    if plain != text:
        return "must not have leading 0s in IP or prefix length"
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        return "must not have an IPv4-mapped IPv6 address"
    if ipaddress.ip_interface(text).ip != network.network_address:
        return "must not have bits set beyond the prefix length"
    return ""


def _outside_complaint(whole: _Network, inner: _Network) -> str:
    """Why a range is no smaller one inside of another, or nothing."""
    is_inside = whole.version == inner.version and inner.network_address in whole and inner.prefixlen > whole.prefixlen
    return "" if is_inside else "must be a strict subset of `cidr`"
