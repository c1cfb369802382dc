"""What the proxy of exports hands on, and for how many clients at a time.

Used by export_proxy.py. Pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.api.transfer_slots import TransferSlots
from kvedge.resources.disks.exports import TOKEN_HEADER, WAY_HEADER, outside_path
from kvedge.resources.types.protection.exports import VirtualMachineExport

# Each download has two connections and some 600 kB here.
MOST_DOWNLOADS: Final = 64
# So many of one namespace: others shall not wait for it.
MOST_OF_ONE: Final = 16
# A client that takes nothing for so long is sent away.
STALLED_SECONDS: Final = 120.0
_SENT: Final = (TOKEN_HEADER, "accept", "range", "if-range", "if-none-match")
_RETURNED: Final = (
    "accept-ranges",
    "cache-control",
    "content-length",
    "content-range",
    "content-security-policy",
    "content-type",
    "etag",
    "last-modified",
    "location",
    "retry-after",
    "x-content-type-options",
)


def sent_headers(headers: Mapping[str, str], export: VirtualMachineExport) -> dict[str, str]:
    """The headers that an exporter gets: a client's few, and the way by which it came."""
    made = {name: headers[name] for name in _SENT if name in headers}
    links = export.status.links
    if links is not None and links.external is not None:
        way = {"base": external_base(export), "ca": links.external.cert}
        made[WAY_HEADER] = base64.b64encode(json.dumps(way).encode()).decode("ascii")
    return made


def returned_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that a client gets."""
    return [(name, value) for name, value in headers if name.lower() in _RETURNED]


def external_base(export: VirtualMachineExport) -> str:
    """What the URLs of the link from outside begin with, as the controller has told."""
    links, meta = export.status.links, export.metadata
    assert links is not None
    assert links.external is not None
    base = outside_path(meta.namespace, meta.name)
    urls = [*(each.url for each in links.external.manifests)]
    urls += [form.url for volume in links.external.volumes for form in volume.formats]
    for url in urls:
        front, found, _ = url.partition(base)
        if found:
            return f"{front}{base}"
    return base


def download_slots(most: int = MOST_DOWNLOADS, of_one: int = MOST_OF_ONE) -> TransferSlots:
    """The downloads that may be under way."""
    return TransferSlots(most, of_one, ("downloads", "from"))
