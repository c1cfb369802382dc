"""Small images for tests, made on the spot: Debian's static busybox, and whatever hostile entries a test wants."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

APPLETS = (
    "sh",
    "cat",
    "echo",
    "id",
    "ls",
    "mkdir",
    "mount",
    "sleep",
    "touch",
    "true",
    "wget",
    "nc",
    "httpd",
    "hostname",
)


def layer(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A layer's tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def directory(name: str, mode: int = 0o755) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    return info, b""


def file(name: str, data: bytes, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.mode = mode
    return info, data


def link(name: str, target: str, *, hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = (tarfile.LNKTYPE if hard else tarfile.SYMTYPE), target
    return info, b""


def special(name: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """A device or a fifo."""
    info = tarfile.TarInfo(name)
    info.type, info.devmajor, info.devminor = kind, 1, 3
    return info, b""


def oci_archive(
    path: Path, layers: Sequence[bytes], config: Mapping[str, Any], name: str = "", *, zipped: bool = True
) -> None:
    """An OCI image-layout archive of one image."""
    stored = [gzip.compress(item, mtime=0) if zipped else item for item in layers]
    document = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [digest(item) for item in layers]},
    }
    config_blob = json.dumps(document).encode()
    media = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if zipped else "")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _descriptor("application/vnd.oci.image.config.v1+json", config_blob),
        "layers": [_descriptor(media, item) for item in stored],
    }
    manifest_blob = json.dumps(manifest).encode()
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest_blob)
    if name:
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "manifests": [entry]}
    blobs = {digest(item): item for item in (config_blob, manifest_blob, *stored)}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    files |= {f"blobs/sha256/{key.removeprefix('sha256:')}": value for key, value in blobs.items()}
    path.write_bytes(layer([file(key, value) for key, value in files.items()]))


def busybox_archive(path: Path, name: str = "", config: Mapping[str, Any] | None = None) -> None:
    """An image with a shell."""
    program = Path("/bin/busybox").read_bytes()
    entries = [directory("bin"), file("bin/busybox", program, 0o755)]
    entries += [link(f"bin/{applet}", "busybox") for applet in APPLETS]
    entries += [directory(item) for item in ("etc", "run", "var")]
    entries += [directory("tmp", 0o1777), link("var/run", "/run")]
    entries.append(file("etc/passwd", b"root:x:0:0::/:/bin/sh\nweb:x:1234:1235::/:/bin/sh\n"))
    entries.append(file("etc/group", b"root:x:0:\nweb:x:1235:\n"))
    oci_archive(path, [layer(entries)], config or {"Env": ["PATH=/bin"]}, name)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)}
