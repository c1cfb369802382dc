"""Which name servers a Pod is told: its dnsConfig, and those of the host.

Called when a Pod's place is made. One box has no cluster DNS, so ClusterFirst means the host's, as the kubelet does
without one.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final

from kvedge.resources.core import Pod

# systemd-resolved's stub listens on loopback, which is another one inside a Pod; this file has the real servers.
_BEHIND_THE_STUB: Final = Path("/run/systemd/resolve/resolv.conf")
_HOST: Final = Path("/etc/resolv.conf")
# glibc's and the kubelet's limits.
_MOST_SERVERS: Final = 3
_MOST_DOMAINS: Final = 32


def host_resolv_conf() -> str:
    """The host's resolver configuration, with servers that can be reached from elsewhere."""
    for path in (_HOST, _BEHIND_THE_STUB):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if _servers(text):
            return text
    return ""


def pod_resolv_conf(pod: Pod, host: str) -> str:
    """The Pod's /etc/resolv.conf; servers on the host's loopback are left out."""
    own = pod.spec.dns_config or {}
    servers = [str(item) for item in own.get("nameservers") or []]
    domains = [str(item) for item in own.get("searches") or []]
    options = [_option(item) for item in own.get("options") or [] if isinstance(item, dict)]
    if pod.spec.dns_policy != "None":
        servers += _servers(host)
        domains += _words(host, "search") or _words(host, "domain")
        options += [option for option in _words(host, "options") if option not in options]
    lines = [f"nameserver {server}" for server in list(dict.fromkeys(servers))[:_MOST_SERVERS]]
    if domains:
        lines.append(f"search {' '.join(list(dict.fromkeys(domains))[:_MOST_DOMAINS])}")
    if options:
        lines.append(f"options {' '.join(options)}")
    return "".join(f"{line}\n" for line in lines)


def _servers(text: str) -> list[str]:
    found = [words[1] for line in text.splitlines() if len(words := line.split()) >= 2 and words[0] == "nameserver"]
    return [server for server in found if not _is_loopback(server)]


def _is_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return True


def _words(text: str, key: str) -> list[str]:
    """The words behind a key; the last line that has it wins, as in glibc."""
    lines = [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [key]]
    return lines[-1] if lines else []


def _option(item: dict[str, object]) -> str:
    name, value = item.get("name", ""), item.get("value")
    return f"{name}:{value}" if value is not None else str(name)
