"""Manifests, indexes and configs of images (OCI image specification, Docker's schema 2).

Called for archives and for what registries answer. Parses and chooses only; every document comes from a stranger.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeGuard

from msgspec import Struct

from kvedge.storage.image_errors import BadImage

# The specification's registries take 4 MiB; an honest manifest has a few KiB.
MAX_DOCUMENT: Final = 4 << 20
MAX_LAYERS: Final = 256
_MAX_SIZE: Final = (1 << 63) - 1
# An honest document has ten levels. Each level takes the parser some of its thread's stack, which may be small.
_MAX_DEPTH: Final = 100
# A string, whether it ends or not, or what changes the depth. Nothing is given back: hostile text costs linear time.
_STRUCTURE: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
# How many of an index's platforms an error names.
_SHOWN: Final = 10

INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
# How the kernel calls a machine, and how images do.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE_ANNOTATIONS: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class Descriptor(Struct, frozen=True):
    """A blob: its digest and its exact size in bytes."""

    digest: str
    size: int


class ImageConfig(Struct, frozen=True):
    """What an image's config says about running it; `diff_ids` are the digests of its uncompressed layers."""

    diff_ids: tuple[str, ...]
    architecture: str = ""
    user: str = ""
    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    working_dir: str = ""


def is_sha256(text: object) -> bool:
    """Whether this is a whole sha256 digest, in lower case: it becomes the name of a file."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def parse_json(data: bytes, what: str) -> Any:
    """A JSON document.

    Raises:
        BadImage: when it is none, or nested deeper than any such document.
    """
    try:
        text = data.decode("utf-8-sig")
        _check_depth(text, what)
        return json.loads(text)
    except ValueError as error:
        raise BadImage(f"the image's {what} is no JSON document") from error


def _check_depth(text: str, what: str) -> None:
    depth = 0
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise BadImage(f"the image's {what} is nested deeper than {_MAX_DEPTH} levels")
        elif mark in "]}":
            depth -= 1


def is_index(document: Any) -> bool:
    """Whether this names manifests (one per architecture) and is none itself."""
    return isinstance(document, dict) and "layers" not in document and isinstance(document.get("manifests"), list)


def architecture_of(machine: str) -> str:
    """An image's word (amd64) for a kernel's machine (x86_64)."""
    return _ARCHITECTURES.get(machine, machine)


def choose_manifest(descriptors: list[Any], machine: str) -> dict[str, Any]:
    """The descriptor of an index that fits this machine (`platform.machine()`).

    Raises:
        BadImage: when none does, naming those there are.
    """
    wanted = architecture_of(machine)
    offered: list[str] = []
    for item in descriptors:
        if not isinstance(item, dict):
            raise BadImage("the image's index has an entry that is no descriptor")
        platform = item.get("platform")
        if not isinstance(platform, dict):
            # An index without platforms, as single images in a layout have it.
            return item
        system, architecture = str(platform.get("os", "linux")), str(platform.get("architecture", ""))
        if system in ("linux", "") and architecture == wanted:
            return item
        if architecture != "unknown":
            offered.append(f"{system}/{architecture}"[:40])
    named = sorted(set(offered))
    shown = ", ".join(named[:_SHOWN]) + (", …" if len(named) > _SHOWN else "")
    raise BadImage(
        f"the image is not made for linux/{wanted}, only for {shown or 'nothing'}",
        "use an image for this machine's architecture",
    )


def reference_annotation(descriptor: dict[str, Any]) -> str:
    """The name that a layout gives to one of its images, or empty."""
    annotations = descriptor.get("annotations")
    if not isinstance(annotations, dict):
        return ""
    return next((str(annotations[key]) for key in _REFERENCE_ANNOTATIONS if annotations.get(key)), "")


def descriptor_of(value: Any, what: str) -> Descriptor:
    """A descriptor of a document.

    Raises:
        BadImage: when it lacks a proper digest or size.
    """
    if not isinstance(value, dict):
        raise BadImage(f"the image's manifest has no {what}")
    digest, size = value.get("digest"), value.get("size")
    if not isinstance(digest, str) or not is_sha256(digest):
        raise BadImage(f"the image's manifest has a {what} without a sha256 digest")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_SIZE:
        raise BadImage(f"the image's manifest has a {what} without a size")
    return Descriptor(digest, size)


def layers_of(manifest: Any) -> tuple[str, tuple[Descriptor, ...]]:
    """The config's digest and the layers of a manifest, lowest first.

    Raises:
        BadImage: when it is no manifest that can be used.
    """
    if not isinstance(manifest, dict) or manifest.get("schemaVersion") != 2:
        raise BadImage("the image has a manifest of an old or unknown version", "push it again with a current tool")
    layers = manifest.get("layers")
    if not isinstance(layers, list) or len(layers) > MAX_LAYERS:
        raise BadImage("the image's manifest has no layers, or too many")
    return (
        descriptor_of(manifest.get("config"), "config").digest,
        tuple(descriptor_of(layer, "layer") for layer in layers),
    )


def parse_config(data: bytes) -> ImageConfig:
    """An image's config.

    Raises:
        BadImage: when it is none.
    """
    document = parse_json(data, "config")
    rootfs = document.get("rootfs") if isinstance(document, dict) else None
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not _is_texts(diff_ids) or len(diff_ids) > MAX_LAYERS or not all(is_sha256(item) for item in diff_ids):
        raise BadImage(f"the image's config does not list its layers by sha256 digests, at most {MAX_LAYERS}")
    run = document.get("config")
    run = run if isinstance(run, dict) else {}
    return ImageConfig(
        diff_ids=tuple(diff_ids),
        architecture=_text(document, "architecture"),
        user=_text(run, "User"),
        env=_texts(run, "Env"),
        entrypoint=_texts(run, "Entrypoint"),
        command=_texts(run, "Cmd"),
        working_dir=_text(run, "WorkingDir"),
    )


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key) or ""
    if not isinstance(value, str):
        raise BadImage(f"the image's config has a broken {key}")
    return value


def _texts(document: dict[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key) or []
    if not _is_texts(value):
        raise BadImage(f"the image's config has a broken {key}")
    return tuple(value)


def _is_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
