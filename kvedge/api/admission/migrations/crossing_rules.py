"""What a migration between two boxes must say.

Called by `migration_verdict`. Pure. Both halves have one name of the migration, which stands in paths, labels and in
the certificate that lets the source in.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.resources.moves.crossing import is_crossing_id
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration

_SPEC: Final = Field("spec")
_HOST: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
_LONGEST_HOST: Final = 253


def crossing_causes(migration: VirtualMachineInstanceMigration) -> Iterator[Cause]:
    """What is wrong with `sendTo` and `receive`."""
    spec = migration.spec
    if spec.send_to is not None and spec.receive is not None:
        text = "a guest that moves within one cluster needs neither sendTo nor receive: leave both out"
        yield unsupported_cause(_SPEC.at("receive"), f"{_SPEC.at('receive')}: {text}")
        return
    for name, half in (("sendTo", spec.send_to), ("receive", spec.receive)):
        if half is None:
            continue
        at = _SPEC.at(name)
        if not is_crossing_id(half.migration_id):
            text = "must be a UUID in small letters, the same on both boxes; `kvedge migrate VM --to` makes one"
            yield invalid_value(at.at("migrationID"), half.migration_id, text)
        if spec.added_node_selector and name == "sendTo":
            where = _SPEC.at("addedNodeSelector")
            yield unsupported_cause(where, f"{where}: the nodes are the other box's: give it to the migration there")
    if spec.send_to is not None:
        at = _SPEC.at("sendTo").at("connectURL")
        if not spec.send_to.connect_url:
            yield required_cause(at, f"{at}: the address of the box that the guest moves to must be given")
        elif not is_host_and_port(spec.send_to.connect_url):
            yield invalid_value(at, spec.send_to.connect_url[:_LONGEST_HOST], "must be HOST:PORT")


def is_host_and_port(text: str) -> bool:
    """Whether a text is an address or name, and a port; IPv6 in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        return False
    if host.startswith("[") and host.endswith("]"):
        try:
            return ipaddress.ip_address(host[1:-1]).version == 6
        except ValueError:
            return False
    return len(host) <= _LONGEST_HOST and _HOST.fullmatch(host) is not None
