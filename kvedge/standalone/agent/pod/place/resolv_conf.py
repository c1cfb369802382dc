"""Which name servers a Pod is told: its dnsConfig, and those of the host.

Called when a Pod's place is made, and then by the keeper of these files, as the host's servers change. ClusterFirst
means the box's own name server, which asks the host's; where it does not run, the host's, as the kubelet does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kvedge.network.host_resolver import LONGEST_RESOLV_CONF, outside_servers
from kvedge.resources.types.core import Pod
from kvedge.standalone.names.name_table import search_domains

# glibc's and the kubelet's limits.
_MOST_SERVERS: Final = 3
_MOST_DOMAINS: Final = 32
# The policies that mean the box's names, the first of them as the default.
_FIRST: Final = ("", "ClusterFirst", "ClusterFirstWithHostNet")


def pod_resolv_conf(pod: Pod, host: str, own_server: str = "") -> str:
    """The Pod's /etc/resolv.conf; servers that it cannot reach are left out: they would take the place of others.

    These are those on the host's loopback, and those of IPv6 unless the network is the host's. `own_server` is the
    box's, empty where it does not run: beside it there is no other one, which would not know our names.
    """
    own = pod.spec.dns_config or {}
    is_ours = own_server and pod.spec.dns_policy in _FIRST and (not pod.spec.host_network or _is_with_host(pod))
    servers = [str(item) for item in own.get("nameservers") or []]
    domains = [str(item) for item in own.get("searches") or []]
    options = [_option(item) for item in own.get("options") or [] if isinstance(item, dict)]
    if is_ours:
        servers.append(own_server)
        domains += search_domains(pod.metadata.namespace)
        options += ["ndots:5"] if not any(option.startswith("ndots:") for option in options) else []
    if pod.spec.dns_policy != "None":
        servers += [] if is_ours else outside_servers(host)
        domains += _words(host, "search") or _words(host, "domain")
        options += [option for option in _words(host, "options") if option not in options]
    if not pod.spec.host_network:
        servers = [server for server in servers if not _is_ipv6(server)]
    lines = [f"nameserver {server}" for server in list(dict.fromkeys(servers))[:_MOST_SERVERS]]
    if domains:
        lines.append(f"search {' '.join(list(dict.fromkeys(domains))[:_MOST_DOMAINS])}")
    if options:
        lines.append(f"options {' '.join(options)}")
    return "".join(f"{line}\n" for line in lines)


def refresh_resolv_conf(path: Path, text: str) -> bool:
    """Make a Pod's file say that; whether it was changed.

    It is written in place, as its containers have this very file mounted. What names no server replaces nothing: a
    host that has lost its network gets it back, and a guest that renews its lease meanwhile would lose its servers.

    Raises:
        OSError: as the file system has it; FileNotFoundError when there is no such file.
    """
    wanted = text.encode()
    with path.open("r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size == len(wanted) and os.pread(file.fileno(), size, 0) == wanted:
            return False
        if size and not outside_servers(text):
            return False
        # In one write and no shorter than before: a reader in between finds empty lines, and none of the old text.
        os.pwrite(file.fileno(), wanted.ljust(min(size, LONGEST_RESOLV_CONF), b"\n"), 0)
        os.truncate(file.fileno(), len(wanted))
    return True


def _is_with_host(pod: Pod) -> bool:
    return pod.spec.dns_policy == "ClusterFirstWithHostNet"


def _is_ipv6(server: str) -> bool:
    return ":" in server


def _words(text: str, key: str) -> list[str]:
    """The words behind a key; the last line that has it wins, as in glibc."""
    lines = [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [key]]
    return lines[-1] if lines else []


def _option(item: dict[str, object]) -> str:
    name, value = item.get("name", ""), item.get("value")
    return f"{name}:{value}" if value is not None else str(name)
