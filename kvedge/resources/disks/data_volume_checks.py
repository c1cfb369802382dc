"""What is wrong with a DataVolume's spec, in CDI's words.

Called by admission, for DataVolumes and for a VM's dataVolumeTemplates, and by the controller: a DataVolume that
entered under older rules stays Pending, and its condition says why. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.resources.data_volume_names import ARCHIVE_CONTENT, KUBEVIRT_CONTENT
from kvedge.resources.types.data_volumes import DataVolumeOrigin, DataVolumeSourceRegistry, DataVolumeSpec
from kvedge.resources.types.storage import READ_ONLY_MANY, READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD
from kvedge.resources.values.quantities import Quantity, QuantityError, parse_bytes

_ACCESS_MODES: Final = (READ_ONLY_MANY, READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD)
_MIB: Final = 1 << 20
_DIGITS: Final = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_OCI_ARCHIVE: Final = "oci-archive"
_PULL_METHODS: Final = (None, "", "pod", "node")

Problem = tuple[str, str]


def data_volume_problems(spec: DataVolumeSpec) -> Iterator[Problem]:
    """Each thing that is wrong: its field below the spec, and a text."""
    yield from _claim_problems(spec)
    yield from _source_problems(spec)
    if spec.content_type not in ("", KUBEVIRT_CONTENT, ARCHIVE_CONTENT):
        yield "contentType", f"ContentType not one of: {KUBEVIRT_CONTENT}, {ARCHIVE_CONTENT}"
    if spec.checkpoints or spec.final_checkpoint:
        yield "checkpoints", "checkpoints: not supported; import the disk as a whole"


def _claim_problems(spec: DataVolumeSpec) -> Iterator[Problem]:
    if spec.pvc is not None and spec.storage is not None:
        yield "pvc", "Duplicate storage definition, both target storage and target pvc defined"
        return
    target = spec.pvc or spec.storage
    if target is None:
        yield "pvc", "Missing Data volume PVC"
        return
    word, at = ("PVC", "pvc") if spec.pvc is not None else ("Storage", "storage")
    size = target.resources.requests.get("storage")
    origin = spec.source
    copies = origin is not None and (origin.pvc is not None or origin.snapshot is not None)
    is_copy = spec.source_ref is not None or copies
    if size is not None or not (is_copy and spec.storage is not None):
        yield from _size_problems(size, word, f"{at}.resources.requests.size")
    if spec.pvc is not None and not spec.pvc.access_modes:
        yield "pvc.accessModes", "Required value: at least 1 access mode is required"
    if spec.pvc is not None and len(spec.pvc.access_modes) > 1:
        yield "pvc.accessModes", "PVC multiple accessModes"
    for mode in target.access_modes:
        if mode not in _ACCESS_MODES:
            known = ", ".join(f'"{item}"' for item in _ACCESS_MODES)
            yield f"{at}.accessModes", f'Unsupported value: "{mode}": supported values: {known}'


def _size_problems(size: Quantity | None, word: str, at: str) -> Iterator[Problem]:
    if size is None:
        yield at, f"{word} size is missing"
        return
    try:
        wanted = parse_bytes(size)
    except QuantityError as error:
        yield at, str(error)
        return
    if wanted <= 0:
        yield at, f"{word} size can't be equal or less than zero"
    elif wanted < _MIB:
        yield at, f"{word} size should be at least 1MiB"


def _source_problems(spec: DataVolumeSpec) -> Iterator[Problem]:
    target = spec.pvc or spec.storage
    foreign = target is not None and bool(target.data_source or target.data_source_ref)
    if spec.source is not None and spec.source_ref is not None:
        yield "source", "Data volume should have either Source or SourceRef, or be externally populated"
        return
    if foreign and (spec.source is not None or spec.source_ref is not None):
        yield "source", "External population is incompatible with Source and SourceRef"
        return
    if spec.source_ref is not None:
        if not spec.source_ref.kind:
            yield "sourceRef", "Missing sourceRef kind"
        elif spec.source_ref.kind != "DataSource":
            text = f"Unsupported sourceRef kind {spec.source_ref.kind}, currently only DataSource is supported"
            yield "sourceRef", text
        if not spec.source_ref.name:
            yield "sourceRef", "Missing sourceRef name"
        return
    if spec.source is None:
        if not foreign:
            yield "source", "Data volume should have either Source or SourceRef, or be externally populated"
        return
    set_ = [name for name in spec.source.__struct_fields__ if getattr(spec.source, name) is not None]
    if not set_:
        yield "source", "Missing Data volume source"
    elif len(set_) > 1:
        yield "source", "Multiple Data volume sources"
    else:
        yield from _origin_problems(spec.source, spec.content_type)


def _origin_problems(source: DataVolumeOrigin, content_type: str) -> Iterator[Problem]:
    if source.http is not None:
        if not source.http.url.startswith(("http://", "https://")):
            yield "source.http.url", f"source.http.url: {source.http.url[:100]} is neither http:// nor https://"
        yield from _checksum_problems(source.http.checksum)
    if source.blank is not None and content_type == ARCHIVE_CONTENT:
        yield "contentType", "SourceType cannot be blank and the contentType be archive"
    if source.registry is not None:
        if content_type == ARCHIVE_CONTENT:
            yield "contentType", "ContentType must be kubevirt when Source is Registry"
        yield from _registry_problems(source.registry)
    if source.pvc is not None and not source.pvc.name:
        yield "source.PVC", "spec.source.PVC source PVC is not valid"
    if source.snapshot is not None and not source.snapshot.name:
        yield "source.snapshot", "spec.source.snapshot source snapshot is not valid"
    if source.snapshot is not None and content_type == ARCHIVE_CONTENT:
        yield "contentType", "ContentType must be kubevirt when Source is Snapshot"
    for name in ("imageio", "vddk"):
        if getattr(source, name) is not None:
            known = "http, registry, s3, gcs, upload, pvc or snapshot"
            yield f"source.{name}", f"source.{name}: not supported; use {known}"


def _registry_problems(source: DataVolumeSourceRegistry) -> Iterator[Problem]:
    at = "source.registry"
    if source.image_stream is not None:
        yield at, "source.registry.imageStream: not supported; use url"
        return
    if not source.url:
        yield at, "Source registry should have either URL or ImageStream"
        return
    scheme, mark, rest = source.url.partition(":")
    if not mark or not rest:
        yield at, f"Illegal registry source URL {source.url[:100]}"
    elif scheme == _OCI_ARCHIVE:
        yield from _oci_archive_problems(source, at)
    elif scheme != "docker":
        yield at, f"Illegal registry source URL scheme {source.url[:100]}"
    if source.pull_method not in _PULL_METHODS:
        yield at, f'ImportMethod {source.pull_method} is neither pod, node or ""'


def oci_archive_url(url: str) -> str:
    """Where the archive of an `oci-archive:` lies; empty for another scheme, and for what is no http(s) URL.

    >>> oci_archive_url("oci-archive:https://site/disk.tar")
    'https://site/disk.tar'
    """
    scheme, _, rest = url.partition(":")
    return rest if scheme == _OCI_ARCHIVE and rest.startswith(("http://", "https://")) else ""


def _oci_archive_problems(source: DataVolumeSourceRegistry, at: str) -> Iterator[Problem]:
    if not oci_archive_url(source.url or ""):
        yield (
            f"{at}.url",
            f"{at}.url: {(source.url or '')[:100]}: a file of CDI's own Pod, which there is none of here; write"
            " oci-archive:https://HOST/FILE, or upload the archive",
        )
    if source.platform is not None:
        yield f"{at}.platform", f"{at}.platform: not with oci-archive:, of which the node's architecture is taken"
    if source.pull_method == "node":
        yield f"{at}.pullMethod", f"{at}.pullMethod: node cannot pull an oci-archive:; remove it"


def _checksum_problems(checksum: str) -> Iterator[Problem]:
    if not checksum:
        return
    at = "source.http.checksum"
    name, _, digits = checksum.partition(":")
    if name not in _DIGITS:
        supported = ", ".join(_DIGITS)
        text = f"unsupported hash algorithm '{name[:20]}': supported algorithms are: {supported}"
        yield at, f"Invalid checksum format: {text}"
    elif len(digits) != _DIGITS[name] or not _HEX.fullmatch(digits):
        yield at, f"Invalid checksum format: {name} takes {_DIGITS[name]} hexadecimal digits"
