"""The links of an export that is served: where each volume is in which form, within the cluster and from outside.

Called by `export_plan`. Pure.
"""

from __future__ import annotations

from typing import Final

from kvedge.controller.exports.export_view import ExportView, SourceVolume
from kvedge.resources.disks.exports import (
    ALL_MANIFESTS,
    EXTERNAL,
    INTERNAL,
    SECRET_MANIFEST,
    outside_path,
    service_host,
)
from kvedge.resources.types.protection.exports import (
    ExportFormat,
    ExportLink,
    ExportLinks,
    ExportManifest,
    ExportVolume,
)

_DISK: Final = (("raw", "disk.img"), ("gzip", "disk.img.gz"))
_FILES: Final = (("dir", "dir/"), ("tar.gz", "disk.tar.gz"))


def make_links(view: ExportView) -> ExportLinks:
    """Both ways; there is none from outside where nothing leads in."""
    meta = view.export.metadata
    inside = _link(view, f"https://{service_host(meta.namespace, meta.name)}", INTERNAL, view.ca)
    outside = None
    if view.front.url:
        base = f"{view.front.url.rstrip('/')}{outside_path(meta.namespace, meta.name)}"
        outside = _link(view, base, EXTERNAL, view.front.ca)
    return ExportLinks(internal=inside, external=outside)


def volume_path(volume: str, form: str) -> str:
    """The path of a volume in one form, beneath a link's base."""
    return f"/volumes/{volume}/{form}"


def gzip_path(volume: str) -> str:
    """The path by which a disk is imported."""
    return volume_path(volume, "disk.img.gz")


def _link(view: ExportView, base: str, way: str, ca: str) -> ExportLink:
    manifests = []
    if view.source.manifests is not None:
        manifests = [
            ExportManifest(type="all", url=f"{base}/{way}/{ALL_MANIFESTS}"),
            ExportManifest(type="auth-header-secret", url=f"{base}/{way}/{SECRET_MANIFEST}"),
        ]
    volumes = [_volume(each, base) for each in view.source.volumes if each.backup is None]
    return ExportLink(cert=ca.strip(), volumes=volumes, manifests=manifests)


def _volume(volume: SourceVolume, base: str) -> ExportVolume:
    forms = _DISK if volume.disk else _FILES
    made = [ExportFormat(format=name, url=f"{base}{volume_path(volume.name, form)}") for name, form in forms]
    return ExportVolume(name=volume.name, formats=made)
