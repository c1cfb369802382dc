"""The manifests by which an exported VM can be imported elsewhere, for the way by which the client came.

Called by export_answers.py. Pure. The controller has prepared the documents; only the way is put into them here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.exports import TOKEN_HEADER
from kvedge.resources.types.protection.export_job import ExportManifests

YAML: Final = "application/yaml"
_LONGEST_WAY: Final = 64 << 10


class Way(Struct, frozen=True):
    """How the client reaches the exporter: what its URLs begin with, and the authority to trust there."""

    base: str
    ca: str


def read_way(header: str) -> Way | None:
    """The way that the proxy tells in its header; None for what is none."""
    try:
        found: Any = json.loads(base64.b64decode(header[:_LONGEST_WAY], validate=True))
        base, ca = found["base"], found["ca"]
    except (ValueError, KeyError, TypeError):
        return None
    return Way(base, ca) if isinstance(base, str) and isinstance(ca, str) else None


def make_manifests(name: str, documents: ExportManifests, way: Way) -> list[JsonObject]:
    """The authority's ConfigMap, the VM, and the DataVolumes that fill its disks from here."""
    authority = f"export-ca-cm-{name}"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": authority},
        "data": {"ca.pem": way.ca},
    }
    vm = json.loads(json.dumps(documents.virtual_machine))
    volumes = json.loads(json.dumps(documents.data_volumes))
    for each in (*((vm.get("spec") or {}).get("dataVolumeTemplates") or ()), *volumes):
        source = ((each.get("spec") or {}).get("source") or {}).get("http")
        if source is not None and str(source.get("url", "")).startswith("/"):
            source["url"] = f"{way.base}{source['url']}"
            source["certConfigMap"] = authority
            source["secretExtraHeaders"] = [header_secret_name(name)]
    return [config_map, vm, *volumes]


def make_header_secret(name: str, token: str) -> JsonObject:
    """The Secret with the header that these DataVolumes send."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": header_secret_name(name)},
        "stringData": {"token": f"{TOKEN_HEADER}:{token}"},
    }


def header_secret_name(name: str) -> str:
    """The Secret's name."""
    return f"header-secret-{name}"


def render(documents: list[JsonObject], accept: str) -> tuple[str, bytes]:
    """Media type and text: a List, or documents of YAML for a client that asks for them."""
    if accept.strip() == YAML:
        import yaml  # costs 15 ms and 2 MB, and few ask for it

        texts = [f"{yaml.safe_dump(each, sort_keys=False)}---\n" for each in documents]
        return YAML, "".join(texts).encode()
    listing: Mapping[str, object] = {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": documents}
    return "application/json", msgspec.json.format(msgspec.json.encode(listing), indent=4)
