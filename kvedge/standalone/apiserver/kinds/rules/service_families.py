"""What Services may say of their addresses and of the versions of IP that these are of, and what of it may change.

Called by the rules of Services. Pure, in Kubernetes' words. Which versions a server has, the ledger of Services knows;
it also fills in what is left out here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.causes import duplicate, forbidden, invalid, one_of

NONE: Final = "None"
FAMILIES: Final = ("IPv4", "IPv6")
SINGLE: Final = "SingleStack"
REQUIRED: Final = "RequireDualStack"
POLICIES: Final = ("PreferDualStack", REQUIRED, SINGLE)
_MOST_ADDRESSES: Final = 2
_TWO_NEED: Final = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
_RELEASED_BY: Final = "must be 'SingleStack' to release the secondary {}"
_MAY_NOT_CHANGE: Final = "may not change once set"


def is_open(spec: JsonObject) -> bool:
    """Without an address and a selector: endpoints of any family may be written by hand."""
    return spec.get("clusterIP") == NONE and not spec.get("selector")


def family_of(address: Any) -> str | None:
    """The family of an address; None for what is none."""
    with suppress(ValueError):
        return FAMILIES[0] if ipaddress.ip_address(str(address)).version == 4 else FAMILIES[1]
    return None


def check_addresses(spec: JsonObject, kind: str) -> Iterator[FieldError]:
    """Everything wrong with a Service's addresses, families and their policy."""
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs") or []
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    if kind == "ExternalName":
        given = {"clusterIPs": address or addresses, "ipFamilies": families, "ipFamilyPolicy": policy}
        yield from (
            forbidden(f"spec.{field}", "may not be set for ExternalName services") for field in given if given[field]
        )
        return
    yield from _check_families(spec, families, policy)
    if not address:
        if addresses:
            yield invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
        return
    if addresses and addresses[0] != address:
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    if address == NONE:
        if kind != "ClusterIP":
            yield invalid("spec.clusterIPs[0]", NONE, f"may not be set to 'None' for {kind} services")
        if len(addresses) > 1:
            yield invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")
        return
    yield from _check_each(addresses or [address], families)
    if len(addresses) > 1 and (policy or SINGLE) == SINGLE:
        yield invalid("spec.ipFamilyPolicy", SINGLE, _TWO_NEED.format("cluster IPs"))


def _check_families(spec: JsonObject, families: list[Any], policy: Any) -> Iterator[FieldError]:
    yield from one_of("spec.ipFamilyPolicy", policy, POLICIES)
    for index, family in enumerate(families):
        yield from one_of(f"spec.ipFamilies[{index}]", family, FAMILIES)
        if family in families[:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", family)
            return
    if len(families) > 1 and (policy or (REQUIRED if is_open(spec) else SINGLE)) == SINGLE:
        yield invalid("spec.ipFamilyPolicy", SINGLE, _TWO_NEED.format("IP families"))


def _check_each(addresses: list[Any], families: list[Any]) -> Iterator[FieldError]:
    if len(addresses) > _MOST_ADDRESSES:
        yield invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")
        return
    for index, address in enumerate(addresses):
        family, path = family_of(address), f"spec.clusterIPs[{index}]"
        if family is None:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(path, address, text)
        elif index < len(families) and families[index] in FAMILIES and family != families[index]:
            text = f"expected an {families[index]} value as indicated by `ipFamilies[{index}]`"
            yield invalid(path, address, text)
    if len(addresses) > 1 and family_of(addresses[0]) == family_of(addresses[1]) is not None:
        yield invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")


def check_changed_addresses(after: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    """A Service keeps its addresses and their families; the second of them goes by its policy alone."""
    single = after.get("ipFamilyPolicy") == SINGLE
    policy = after.get("ipFamilyPolicy") or SINGLE
    for field, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, then = _list_values(after, field), _list_values(before, field)
        for index, (one, other) in enumerate(zip(now, then, strict=False)):
            if one != other:
                yield invalid(f"spec.{field}[{index}]", now, _MAY_NOT_CHANGE)
        if now and len(now) < len(then) and not single:
            yield invalid("spec.ipFamilyPolicy", policy, _RELEASED_BY.format(what))


def _list_values(spec: JsonObject, field: str) -> list[Any]:
    only = spec.get("clusterIP") if field == "clusterIPs" else None
    return spec.get(field) or ([only] if only else [])


def keep_addresses(after: JsonObject, before: JsonObject) -> None:
    """What an update leaves out of these stays; the second of each goes with the policy (`after` is altered)."""
    if not after.get("clusterIP") and before.get("clusterIP"):
        after["clusterIP"] = before["clusterIP"]
    if not after.get("clusterIPs") and after.get("clusterIP") == before.get("clusterIP"):
        after["clusterIPs"] = list(before.get("clusterIPs") or [])
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if not after.get(field) and before.get(field):
            after[field] = before[field]
    if after.get("ipFamilyPolicy") == SINGLE != (before.get("ipFamilyPolicy") or SINGLE):
        for field in ("clusterIPs", "ipFamilies"):
            if after.get(field) == before.get(field):
                after[field] = (after.get(field) or [])[:1]
