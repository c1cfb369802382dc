"""The launcher's image: an OCI archive with nothing in it but places to mount things at.

Called by the node agent (into the local store) and by `kvedge install` (to where k3s preloads images). The host's
/usr and kvedge's own directories come in by hostPath. Every version of kvedge with the same layout gives the same bytes
on every machine of an architecture: nothing is compressed, as the output of compressors differs between their versions.
A change of its content gives `LAUNCHER_IMAGE` the next number: nodes of both versions may be in one cluster.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.names import GUESTFS_ENTRY, GUESTFS_IMAGE, LAUNCHER_IMAGE
from kvedge.runtime.durable_files import write_whole
from kvedge.storage.images.image_manifest import architecture_of

# The user of QEMU and libvirt, as in KubeVirt's image.
_USER: Final = 107

_DIRECTORIES: Final = (
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    # Everybody may pass: a checkout below root's home is mounted at its own path, and user 107 runs it.
    ("root", 0o755),
    ("run", 0o755),
    ("run/kubevirt", 0o755),
    ("run/kubevirt-capabilities", 0o755),
    ("run/kubevirt-ephemeral-disks", 0o755),
    ("run/kubevirt-image-volume", 0o755),
    ("run/kubevirt-private", 0o755),
    ("run/libvirt", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
)
_LINKS: Final = (
    ("bin", "usr/bin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("sbin", "usr/sbin"),
    ("var/lock", "/run/lock"),
    ("var/run", "/run"),
)
_FILES: Final = (
    ("etc/group", "root:x:0:\ntty:x:5:\nqemu:x:107:\nnogroup:x:65534:\n"),
    ("etc/hostname", ""),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\n"
        "qemu:x:107:107:qemu:/:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    ),
    ("etc/resolv.conf", ""),
)


# The first process of a container has no default for SIGTERM: without the trap its end would take the grace period.
_GUESTFS_SCRIPT: Final = b"""#!/bin/sh
if [ "${1:-}" = shell ]; then
    if command -v bash >/dev/null; then exec bash; fi
    exec sh
fi
trap "exit 0" TERM
while :; do sleep 86400 & wait $!; done
"""


def write_launcher_image(path: str | os.PathLike[str], machine: str = "") -> None:
    """Write the archive for a machine (by default this one), replacing `path` whole.

    Raises:
        OSError: as the file system has it.
    """
    # Each start writes it, so that a power cut may take it.
    write_whole(Path(path), launcher_image(machine or platform.machine()))


def launcher_image(machine: str) -> bytes:
    """The archive's bytes."""
    return oci_archive([empty_image()], machine)


class LocalImage(Struct, frozen=True):
    """An image of our own: its name, its layers as archives, and what else its config says of how it starts."""

    name: str
    layers: tuple[bytes, ...]
    config: Mapping[str, Any]


def empty_image() -> LocalImage:
    """The image of launchers."""
    start = {
        "User": f"{_USER}:{_USER}",
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"],
        "WorkingDir": "/",
    }
    return LocalImage(LAUNCHER_IMAGE, (_layer(),), start)


def write_guestfs_image(path: str | os.PathLike[str], machine: str = "") -> None:
    """Write the archive of the image of `virtctl guestfs`. Raises OSError."""
    write_whole(Path(path), oci_archive([guestfs_image()], machine or platform.machine()))


def guestfs_image() -> LocalImage:
    """The image of the Pods of `virtctl guestfs`: the launcher's, and what virtctl starts in it."""
    base = empty_image()
    return LocalImage(GUESTFS_IMAGE, (*base.layers, program_layer(GUESTFS_ENTRY, _GUESTFS_SCRIPT)), base.config)


def oci_archive(images: Sequence[LocalImage], machine: str) -> bytes:
    """An archive of images for one machine; layers that they share are in it once."""
    blobs: dict[str, bytes] = {}
    listed = []
    for image in images:
        config = _json(_config(image, machine))
        manifest = _json(_manifest(config, image))
        listed.append(_index_entry(manifest, image.name, machine))
        blobs |= {_digest(blob): blob for blob in (config, manifest, *image.layers)}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": listed,
    }
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json(index),
        **{f"blobs/sha256/{digest.removeprefix('sha256:')}": blob for digest, blob in blobs.items()},
    }
    return _tar([_member(name, 0o644, data) for name, data in sorted(files.items())])


def program_layer(path: str, program: bytes) -> bytes:
    """A layer with one program, and the directories above it."""
    parents = [str(parent) for parent in reversed(Path(path.lstrip("/")).parents) if str(parent) != "."]
    members = [_member(f"{parent}/", 0o755) for parent in parents]
    return _tar([*members, _member(path.lstrip("/"), 0o755, program)])


def _layer() -> bytes:
    members = [_member(f"{name}/", mode) for name, mode in _DIRECTORIES]
    members += [_member(name, 0o777, link=target) for name, target in _LINKS]
    members += [_member(name, 0o644, text.encode()) for name, text in _FILES]
    return _tar(sorted(members, key=lambda member: member[0].name))


def _config(image: LocalImage, machine: str) -> dict[str, Any]:
    return {
        "architecture": architecture_of(machine),
        "os": "linux",
        "config": dict(image.config),
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in image.layers]},
    }


def _manifest(config: bytes, image: LocalImage) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer) for layer in image.layers],
    }


def _index_entry(manifest: bytes, name: str, machine: str) -> dict[str, Any]:
    descriptor = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    # containerd reads the first, everybody else the second.
    annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    target = {"architecture": architecture_of(machine), "os": "linux"}
    return {**descriptor, "annotations": annotations, "platform": target}


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _member(name: str, mode: int, data: bytes = b"", link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name.rstrip("/"))
    member.mode = mode
    member.size = len(data)
    if name.endswith("/"):
        member.type = tarfile.DIRTYPE
    elif link:
        member.type, member.linkname = tarfile.SYMTYPE, link
    return member, data


def _tar(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, data in members:
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()
