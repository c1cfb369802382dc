"""What the roles, exporters and clients agree on of exports: names, paths, headers.

Read by the controller (exporter Pods, links), the api role (the proxy), the embedded API and the exporter. Touches
nothing. Names that are clients' too are KubeVirt's.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import unquote

from kvedge.resources.types.protection.exports import EXPORT_GROUP, EXPORT_VERSION, OLDER_EXPORT_VERSIONS

# By this header, or this parameter of the URL, a client shows its token.
TOKEN_HEADER: Final = "x-kubevirt-export-token"
# The key of a token's Secret.
TOKEN_KEY: Final = "token"
TOKEN_LENGTH: Final = 20
EXPORT_PORT: Final = 8443
SERVICE_PORT: Final = 443
# On exporters' Pods, selected by the export's Service.
SERVICE_LABEL: Final = "kubevirt.io.virt-export-service"
EXPORTER_APP: Final = "virt-exporter"
# By this header the proxy says by which way its client came: base64 of JSON with `base` and `ca`.
WAY_HEADER: Final = "X-Kvedge-Export-Way"

# Beneath a link's base.
ALL_MANIFESTS: Final = "manifests/all"
SECRET_MANIFEST: Final = "manifests/secret"
INTERNAL: Final = "internal"
EXTERNAL: Final = "external"

# Of the names of exporters, their Services and their Secrets, and of the Secrets with tokens.
EXPORTER_PREFIX: Final = "virt-export-"
TOKEN_SECRET_PREFIX: Final = "export-token-"
EXPORTER_CONTAINER: Final = "exporter"
_LONGEST_SERVICE: Final = 63
_OUTSIDE: Final = re.compile(
    rf"/api/{re.escape(EXPORT_GROUP)}/({'|'.join((EXPORT_VERSION, *OLDER_EXPORT_VERSIONS))})"
    r"/namespaces/([a-z0-9.-]{1,253})/virtualmachineexports/([a-z0-9.-]{1,253})(/[^?#]*)",
    re.ASCII,
)


def exporter_name(export: str) -> str:
    """The exporter's Pod, and the Service that leads to it.

    >>> exporter_name("disk")
    'virt-export-disk'
    """
    name = f"{EXPORTER_PREFIX}{export}"
    if "." in name:
        # A Service's name is one label. With the digest two exports never share one.
        digest = hashlib.sha256(export.encode()).hexdigest()[:8]
        return f"{name.replace('.', '-')[: _LONGEST_SERVICE - len(digest) - 1].rstrip('-')}-{digest}"
    if len(name) <= _LONGEST_SERVICE:
        return name
    # KubeVirt's way to shorten it, by which its clients find the Pod.
    base = EXPORTER_PREFIX.rstrip("-")
    room = _LONGEST_SERVICE - len(f"-{_short_hash(base)}-{export}")
    return f"{base[:room]}-{_short_hash(base)}-{export}" if room > 0 else f"{base}-{_short_hash(name)}"


def _short_hash(text: str) -> str:
    """FNV-1a of 32 bits."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def default_token_secret(export: str) -> str:
    """The Secret with the token of an export that names none."""
    return f"{TOKEN_SECRET_PREFIX}{export}"


def server_name(export_uid: str) -> str:
    """The name in an exporter's certificate by which the proxy knows it: no other export's Pod has it."""
    return f"{export_uid}.export.kvedge.io"


def service_host(namespace: str, export: str) -> str:
    """The host in links within the cluster."""
    return f"{exporter_name(export)}.{namespace}.svc"


def outside_path(namespace: str, export: str) -> str:
    """The path of an export at the proxy."""
    return f"/api/{EXPORT_GROUP}/{EXPORT_VERSION}/namespaces/{namespace}/virtualmachineexports/{export}"


def split_outside_path(path: str) -> tuple[str, str, str] | None:
    """Namespace, export, and the path at its exporter; None for a path of something else.

    >>> split_outside_path("/api/export.kubevirt.io/v1/namespaces/a/virtualmachineexports/b/volumes/c/disk.img")
    ('a', 'b', '/volumes/c/disk.img')
    """
    found = _OUTSIDE.fullmatch(path)
    # A client or a proxy that works dots out would end up at another path.
    if found is None or any(unquote(part) in (".", "..") for part in found[4].split("/")):
        return None
    return found[2], found[3], found[4]


def backup_path(volume: str, what: str) -> str:
    """The path of a backup's volume beneath a link's base: its `data`, or the `map` of it."""
    return f"/exports/{volume}/{what}"
