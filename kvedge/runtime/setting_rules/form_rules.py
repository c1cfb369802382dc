"""What is wrong with settings that have a form of their own: places of volumes, roles, and the web console.

Called by `settings`. Pure: it looks at no file that they name. Each reason says what may stand there instead.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from kvedge.runtime.nearest_names import CLOSE_ENOUGH, nearest_name

# Before the volume group and the thin pool of a place; lvm2's own names.
THIN: Final = "lvm-thin:"
_THIN_POOL: Final = re.compile(rf"{THIN}[A-Za-z0-9_+.][A-Za-z0-9_+.-]{{0,126}}/[A-Za-z0-9_+.][A-Za-z0-9_+.-]{{0,126}}")
# A StorageClass's name, as one label.
_CLASS_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def names_in(text: str) -> list[str]:
    """What stands between commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def wrong_console(address: str, certificate: str, key: str) -> Iterator[tuple[str, str]]:
    """The setting and the reason for each fault of the web console's address and files; empty is none."""
    if address and not _is_address(address):
        yield "console-address", f"{address} is not ADDRESS:PORT, such as 0.0.0.0:8443"
    files = {"console-certificate": certificate, "console-key": key}
    for name, path in files.items():
        if path and not Path(path).is_absolute():
            yield name, f"{path} must be an absolute path"
    if bool(certificate) != bool(key):
        missing = next(name for name, path in files.items() if not path)
        yield missing, "console-certificate and console-key go together: name both files"


def wrong_places(text: str) -> Iterator[str]:
    """The reason for each fault of a list of places."""
    seen, pools = set[str](), set[str]()
    for each in names_in(text):
        name, _, path = each.partition("=")
        if not _CLASS_NAME.fullmatch(name) or name in seen or name == "kvedge":
            yield f"{name!r} must be the name of a StorageClass, each once, and not kvedge: fast=/mnt/ssd"
        elif path.startswith("lvm"):
            if not _THIN_POOL.fullmatch(path):
                yield f"{each}: a thin pool is named by volume group and pool: {name}={THIN}GROUP/POOL"
            elif path in pools:
                yield f"{each}: the pool is a place already, and each is one place only"
            pools.add(path)
        elif not Path(path).is_absolute() or ".." in Path(path).parts:
            yield f"{each} must name an absolute path: {name}=/mnt/{name}"
        seen.add(name)


def wrong_roles(text: str, roles: Collection[str]) -> str:
    """What is wrong with a list of roles, of which these are known; empty when nothing is."""
    known, named = ", ".join(sorted(roles)), names_in(text)
    if not named:
        return f"names no role: known are {known}"
    for name in named:
        if name not in roles:
            close = nearest_name(name, roles, CLOSE_ENOUGH)
            return f"{name} is not a role: {f'did you mean {close}?' if close else f'known are {known}'}"
    return ""


def _is_address(text: str) -> bool:
    """Whether it is an IP address and a port; an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (":" in bare) != (bare != host) or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        return False
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return False
    return True
