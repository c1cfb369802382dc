"""The host's name servers, as they can be reached from elsewhere than the host itself.

Called by the node agent, which tells them to Pods, and by the handler, which tells them to guests whose Pod has none.
Reads two files of the host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# systemd-resolved's stub listens on loopback, which is another one inside a Pod; the second file has the real servers.
_FILES: Final = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
LONGEST_RESOLV_CONF: Final = 64 * 1024


def host_resolv_conf(files: Sequence[Path] = _FILES) -> str:
    """The first file that names a server off the loopback; empty when none does, as on a host without network."""
    for path in files:
        try:
            with path.open("rb") as file:
                text = file.read(LONGEST_RESOLV_CONF).decode(errors="replace")
        except OSError:
            continue
        if outside_servers(text):
            return text
    return ""


def outside_servers(text: str) -> list[str]:
    """The name servers of a resolv.conf that are not on the loopback."""
    found = [words[1] for line in text.splitlines() if len(words := line.split()) >= 2 and words[0] == "nameserver"]
    return [server for server in found if not _is_loopback(server)]


def _is_loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return True
