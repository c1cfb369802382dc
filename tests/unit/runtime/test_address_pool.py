"""The pool of addresses for load balancers, as the setting writes it."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from kvedge.runtime.address_pool import MOST_RANGES, address_pool


def test_networks_ranges_and_single_addresses_of_both_families_make_one_pool() -> None:
    pool = address_pool("192.0.2.8/30, 192.0.2.240-192.0.2.241 ,192.0.2.99,2001:db8::/127")
    assert [str(each) for each in pool.ranges] == [
        "192.0.2.8-192.0.2.11",
        "192.0.2.240-192.0.2.241",
        "192.0.2.99",
        "2001:db8::-2001:db8::1",
    ]
    assert [str(each) for each in pool.of_version(6)[0].addresses()] == ["2001:db8::", "2001:db8::1"]
    assert ip_address("192.0.2.241") in pool
    assert ip_address("192.0.2.242") not in pool
    # The same number of the other family is another address.
    assert ip_address("::192.0.2.241") not in pool


def test_nothing_is_no_pool() -> None:
    assert not address_pool(" ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("192.0.2.9/30", "host bits", id="host bits set"),
        pytest.param("192.0.2.9-192.0.2.1", "from a lower address to a higher one", id="backwards"),
        pytest.param("192.0.2.9-2001:db8::1", "from a lower address to a higher one", id="from one family to another"),
        pytest.param("192.0.2.9,", "does not appear to be", id="an end without an address"),
        pytest.param("edge-1", "does not appear to be", id="a name"),
        pytest.param("192.0.2.0/28,192.0.2.9", "192.0.2.9 has addresses of another range", id="one address twice"),
        pytest.param("127.0.0.5", "no address that other hosts reach", id="the loopback"),
        pytest.param("fe80::5-fe80::9", "no address that other hosts reach", id="addresses of a link"),
        pytest.param("0.0.0.0/0", "no address that other hosts reach", id="everything"),
        pytest.param(",".join(f"192.0.2.{n}" for n in range(MOST_RANGES + 1)), "give 32 at most", id="too many"),
    ],
)
def test_what_is_no_pool_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        address_pool(text)
