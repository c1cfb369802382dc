"""Pulling: from a reference to an image in the store.

Called by `image_worker`, within limits. Downloads into `partial/` (resumable), unpacks in a staging directory, and
keeps no blob.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from kvedge.storage.image_errors import BadImage, ImageError, RegistryError, store_error
from kvedge.storage.images.image_import import unpack_layers
from kvedge.storage.images.image_manifest import (
    Descriptor,
    choose_manifest,
    descriptor_of,
    is_index,
    layers_of,
    parse_config,
    parse_json,
)
from kvedge.storage.images.image_names import ImageName, InvalidImageName, parse_image_name
from kvedge.storage.images.image_records import Image
from kvedge.storage.images.image_rules import LOCAL_REGISTRY, Origin
from kvedge.storage.images.image_store import ImageStore, NewImage
from kvedge.storage.images.registry_client import RegistryClient, is_loopback
from kvedge.storage.images.registry_door import RegistryDoor
from kvedge.storage.images.registry_pace import Pace
from kvedge.storage.images.staging import hold_lock, make_private_directory, remove_free_lock
from kvedge.storage.sparse_file import Progress, ignore_progress

# A download that was cut off is worth resuming for a week.
_KEPT_SECONDS: Final = 7 * 24 * 3600


def pull_image(
    store: ImageStore,
    reference: str,
    credentials: Mapping[str, tuple[str, str]] | None = None,
    progress: Progress = ignore_progress,
    insecure: frozenset[str] = frozenset(),
    *,
    own_host: bool = True,
) -> Image:
    """Fetch an image from its registry; a present image is only looked up by its digest.

    `credentials` maps registries to (user, password). Registries on loopback and those in `insecure` are spoken to over
    http when they have no https. Without `own_host` this host's own addresses are asked only for the registries in
    `insecure`: the right to name an image is none to look around on the host.

    Raises:
        ImageError: with what is wrong and what to do; what was downloaded is kept for the next attempt.
    """
    try:
        name = parse_image_name(reference)
    except InvalidImageName as error:
        raise ImageError(str(error)) from error
    if name.registry == LOCAL_REGISTRY:
        raise RegistryError(
            f"no registry has {name}, as {LOCAL_REGISTRY} stands for this machine: run kvedge image import",
            temporary=False,
        )
    try:
        # One download of a repository at a time: a second Pod with the same image waits and then finds it.
        with hold_lock(make_private_directory(store.root / "partial") / f"{_file_name(name)}.lock"):
            # The pace counts from here: the wait for another download is not the registry's.
            client = _client(store, name, credentials or {}, insecure, own_host=own_host)
            return _pull(store, client, name, progress)
    except OSError as error:
        raise store_error(f"pulling {name}", error) from error


def _client(
    store: ImageStore,
    name: ImageName,
    credentials: Mapping[str, tuple[str, str]],
    insecure: frozenset[str],
    *,
    own_host: bool,
) -> RegistryClient:
    user, password = credentials.get(name.registry, ("", ""))
    named = name.registry in insecure
    return RegistryClient(
        name,
        user,
        password,
        insecure=named or is_loopback(name.registry),
        door=RegistryDoor(name.registry, own_host=own_host or named),
        pace=Pace(name.registry, store.pace),
    )


def _pull(store: ImageStore, client: RegistryClient, name: ImageName, progress: Progress) -> Image:
    _sweep_partial(store.root / "partial")
    top = client.manifest(name.digest or name.tag)
    manifest = parse_json(top.data, "manifest")
    if is_index(manifest):
        chosen = descriptor_of(choose_manifest(manifest["manifests"], platform.machine()), "manifest")
        manifest = parse_json(client.manifest(chosen.digest).data, "manifest")
    config_digest, layers = layers_of(manifest)
    if store.has(config_digest):
        return store.add_name(config_digest, name, Origin.PULLED, top.digest)
    return _download_and_store(store, client, name, top.digest, manifest, layers, progress)


def _download_and_store(
    store: ImageStore,
    client: RegistryClient,
    name: ImageName,
    digest: str,
    manifest: Any,
    layers: tuple[Descriptor, ...],
    progress: Progress,
) -> Image:
    described = descriptor_of(manifest.get("config"), "config")
    wanted = (described, *layers)
    total = sum(item.size for item in wanted)
    if total > store.limits.total_bytes:
        raise BadImage(f"{name} is {total >> 20} MiB to download, more than an image may hold")
    blobs = _fetch_all(store, client, wanted, total, progress)
    config = parse_config(blobs[0].read_bytes())
    if len(config.diff_ids) != len(layers):
        raise BadImage(f"the manifest of {name} and its config disagree on the layers")
    with store.make_staging() as staging:
        tree = staging / "image" / "tree"
        tree.mkdir(parents=True)

        def use_layer(index: int, use: Callable[[BinaryIO], None]) -> None:
            with blobs[index + 1].open("rb") as stream:
                use(stream)

        unpack_layers(store, tree, config.diff_ids, use_layer)
        image = store.add(NewImage(described.digest, "oci", config, tree), name, Origin.PULLED, digest)
    for blob in blobs:
        blob.unlink(missing_ok=True)
    return image


def _fetch_all(
    store: ImageStore, client: RegistryClient, wanted: tuple[Descriptor, ...], total: int, progress: Progress
) -> list[Path]:
    folder = store.root / "partial"
    paths: list[Path] = []
    before = 0
    for item in wanted:
        path = folder / f"{_file_name(client.name)}-{item.digest.removeprefix('sha256:')}"
        client.download_blob(item, path, lambda present, base=before: progress(base + present, total))  # type: ignore[misc]
        before += item.size
        progress(before, total)
        paths.append(path)
    return paths


def _sweep_partial(folder: Path) -> None:
    """Forget downloads that nobody has gone on with for a long time."""
    oldest = time.time() - _KEPT_SECONDS
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime >= oldest:
                continue
            if path.suffix == ".lock":
                remove_free_lock(path)
            else:
                path.unlink()


def _file_name(name: ImageName) -> str:
    return name.familiar.replace("/", "_").replace(":", "_")
