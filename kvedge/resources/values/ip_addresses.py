"""IP addresses as people write them in a VMI, leading zeros and all.

Used by admission, the launcher Pod's manifest and the handler, which must agree on what such a text means. Pure.

Kubernetes and KubeVirt go on accepting `010.0.0.1` in fields that once took it, and read each part as a decimal number.
A C library reads the same text as octal, so that code which hands an address on writes it out anew.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

# Four decimal numbers at the end of an address, which is all of an IPv4 one; no part is longer than a sane author's.
_IPV4_PART: Final = re.compile(r"(?:[0-9]{1,8}\.){3}[0-9]{1,8}\Z")


def parse_ip(text: str) -> IpAddress:
    """The address that `text` stands for.

    Raises:
        ValueError: when it is none, or one with a zone, which means something on one machine only.
    """
    found = _IPV4_PART.search(text)
    if found is not None:
        text = text[: found.start()] + ".".join(str(int(part)) for part in found[0].split("."))
    if "%" in text:
        raise ValueError(f"{text!r} has a zone")
    return ipaddress.ip_address(text)


def parse_ipv4(text: str) -> ipaddress.IPv4Address:
    """The IPv4 address that `text` stands for, also one that is written as an IPv6 address.

    Raises:
        ValueError: when it is none.
    """
    address = _unmap(parse_ip(text))
    if not isinstance(address, ipaddress.IPv4Address):
        raise ValueError(f"{text!r} is no IPv4 address")
    return address


def plain_ip(text: str) -> str:
    """The address as every reader understands it; a text that is none stays as it is, for somebody else to refuse."""
    try:
        return str(_unmap(parse_ip(text)))
    except ValueError:
        return text


def _unmap(address: IpAddress) -> IpAddress:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
