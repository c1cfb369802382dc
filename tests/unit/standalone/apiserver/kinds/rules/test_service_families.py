"""Addresses and families of Services: what an update keeps, and what it may not change.

What is refused at a creation, and in which words, is held against a kube-apiserver in
`tests/contract/apiserver/test_service_families.py`.
"""

from __future__ import annotations

import copy

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.rules.service_families import (
    check_addresses,
    check_changed_addresses,
    family_of,
    is_open,
    keep_addresses,
)

DUAL: JsonObject = {
    "clusterIP": "10.0.0.5",
    "clusterIPs": ["10.0.0.5", "fd01::5"],
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "PreferDualStack",
}


def changed(**spec: object) -> JsonObject:
    after = {**copy.deepcopy(DUAL), **spec}
    keep_addresses(after, DUAL)
    return after


def test_what_is_left_out_stays() -> None:
    assert changed(clusterIP=None, clusterIPs=None, ipFamilies=None, ipFamilyPolicy=None) == DUAL


def test_the_second_of_each_goes_with_the_policy() -> None:
    after = changed(ipFamilyPolicy="SingleStack")
    assert (after["clusterIPs"], after["ipFamilies"]) == (["10.0.0.5"], ["IPv4"])
    assert list(check_changed_addresses(after, DUAL)) == []
    assert list(check_addresses(after, "ClusterIP")) == []


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"clusterIP": "10.0.0.6", "clusterIPs": ["10.0.0.6", "fd01::5"]}, "spec.clusterIPs[0]", "may not change"),
        ({"clusterIPs": ["10.0.0.5", "fd01::6"]}, "spec.clusterIPs[1]", "may not change once set"),
        ({"ipFamilies": ["IPv6", "IPv4"]}, "spec.ipFamilies[0]", "may not change once set"),
        ({"clusterIPs": ["10.0.0.5"]}, "spec.ipFamilyPolicy", "to release the secondary cluster IP"),
        ({"ipFamilies": ["IPv4"]}, "spec.ipFamilyPolicy", "to release the secondary IP family"),
    ],
    ids=["the first address", "the second one", "the families' order", "an address less", "a family less"],
)
def test_nothing_else_changes_them(spec: JsonObject, field: str, words: str) -> None:
    first = next(iter(check_changed_addresses(changed(**spec), DUAL)))
    assert first.field == field
    assert words in first.message


def test_the_family_of_what_is_no_address_is_none() -> None:
    assert [family_of(each) for each in ("10.0.0.5", "fd01::5", "None", None)] == ["IPv4", "IPv6", None, None]


def test_a_service_without_address_and_selector_is_for_any_family() -> None:
    assert is_open({"clusterIP": "None"})
    assert not is_open({"clusterIP": "None", "selector": {"app": "web"}})
    assert list(check_addresses({"clusterIP": "None", "ipFamilies": ["IPv4", "IPv6"]}, "ClusterIP")) == []
