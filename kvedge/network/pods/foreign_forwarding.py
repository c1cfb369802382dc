"""The other users of this host's forwarding: tables that translate addresses or drop forwarded packets, and links that
forward already.

Called by `pod_network` and by `kvedge doctor` in the host's namespace. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.nft.nft_edge import list_base_chains, list_tables
from kvedge.network.nft.nft_tables import Family, Hook
from kvedge.network.sysctls import read_sysctl

# Of the calling thread's namespace, which /proc/net is not: that is the main thread's.
LEGACY_TABLES: Final = Path("/proc/thread-self/net/ip_tables_names")
LEGACY_NAT: Final = "iptables-legacy/nat"
FIREWALLD: Final = "firewalld"


def foreign_ipv6_nat(ours: Collection[str]) -> tuple[str, ...]:
    """As :func:`foreign_nat`, for IPv6. A table of both families is none: a firewall has it for IPv4 on every host."""
    chains = list_base_chains(Family.IP6, Hook.POSTROUTING)
    return tuple(f"ip6/{each.table}" for each in chains if each.type == "nat" and each.table not in ours)


def foreign_nat(ours: Collection[str]) -> tuple[str, ...]:
    """Tables of others that translate addresses on the way out; `ours` are the names of the instances' tables."""
    families = (("ip", Family.IP), ("inet", Family.INET))
    chains = [(name, chain) for name, family in families for chain in list_base_chains(family, Hook.POSTROUTING)]
    found = [f"{name}/{each.table}" for name, each in chains if each.type == "nat" and each.table not in ours]
    return (*found, *legacy_nat())


def dropping_chains(*, ipv6: bool = False) -> tuple[str, ...]:
    """Chains (`family/table/chain`) of others that drop what is forwarded, unless a rule before lets it pass."""
    families = [("ip", Family.IP), ("inet", Family.INET), *([("ip6", Family.IP6)] if ipv6 else [])]
    chains = [(name, chain) for name, family in families for chain in list_base_chains(family, Hook.FORWARD)]
    return tuple(f"{name}/{each.table}/{each.name}" for name, each in chains if each.drops)


def has_firewalld() -> bool:
    """Whether firewalld filters here: it refuses what is forwarded by a rule, and its chains drop nothing by policy."""
    return any(FIREWALLD in list_tables(family, FIREWALLD) for family in (Family.INET, Family.IP))


def legacy_nat() -> tuple[str, ...]:
    """The table of the iptables that nftables does not know, as Docker has it on hosts with `iptables-legacy`."""
    try:
        tables = LEGACY_TABLES.read_text().split()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise NetworkError(
            "cannot read the tables of iptables", subject=str(LEGACY_TABLES), errno=error.errno or 0
        ) from error
    return (LEGACY_NAT,) if "nat" in tables else ()


def forwards_already(names: Iterable[str]) -> bool:
    """Whether the host forwards what comes in by any of these links, as `IPForward=` of a single link has it."""
    return any(read_sysctl(f"ipv4/conf/{name}/forwarding") == "1" for name in names)
