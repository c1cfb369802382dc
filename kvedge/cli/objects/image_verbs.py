"""`kvedge image import|pull|list|rm`: the local image store of one box.

Called by the group. Works on the data directory itself, so that images can be put there before anything runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbGroup
from kvedge.client.session import Session, check_name
from kvedge.client.tables import columns
from kvedge.runtime.settings import Settings, load_settings
from kvedge.storage.image_errors import BadImage, ImageError, ImageInUse, ImageNotFound, StoreError
from kvedge.storage.image_size import read_disk_size
from kvedge.storage.images.image_records import Image
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.image_work import import_work, pull_work

_DATA_DIR = click.option("--data-dir", default=None, help="The data directory of `kvedge standalone`.")


@click.group(cls=VerbGroup)
def image() -> None:
    """Images for container disks, kept on this box."""


@image.command("import")
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--name", default="", help="What manifests call it, such as local/fedora:40; archives carry names.")
@click.option("--datasource", default="", help="Fill a claim from it, and lead the DataSource of this name there.")
@click.option("--size", default="", help="The size of that claim's disk; the image's own without it.")
@click.option("--storage-class", default="", help="The storage class of that claim.")
@session_options
@click.option("--timeout", type=click.FloatRange(min=0), default=300.0, help="How many seconds nothing may happen.")
@_DATA_DIR
def import_(
    file: Path,
    name: str,
    datasource: str,
    size: str,
    storage_class: str,
    kubeconfig: Path | None,
    namespace: str | None,
    timeout: float,
    data_dir: str | None,
) -> None:
    """Take in a qcow2 or raw disk, a docker archive (docker save) or an OCI archive.

    \b
    kvedge image import fedora.qcow2 --name local/fedora:43 --datasource fedora

    With --datasource, DataVolumes and VMs clone the image by `sourceRef`. A later import leads the DataSource to a
    claim of its own; the older claims stay until they are deleted.
    """
    session = None
    if datasource:
        session = open_session(kubeconfig, namespace)
        check_name(datasource)
    elif size or storage_class:
        raise Refused("--size and --storage-class are of the claim that --datasource NAME makes", Exit.USAGE)
    with _explain_errors(), _show_progress() as progress:
        images = import_work(_store(data_dir), file, name).run(progress)
    for found in images:
        click.echo(f"imported {found.name}")
    if session is None:
        return
    if len(images) != 1:
        raise Refused(f"--datasource: {file} has {len(images)} images; import one by itself", Exit.USAGE)
    _fill_claim(session, images[0], datasource, (size, storage_class, timeout))


def _fill_claim(session: Session, found: Image, name: str, wish: tuple[str, str, float]) -> None:
    from kvedge.cli.progress import Progress
    from kvedge.client.disk_wait import DiskWait
    from kvedge.client.uploads.golden_image import claim_name, golden_volume, lead_data_source, make_golden_volume

    size, storage_class, timeout = wish
    claim = claim_name(name, found.id)
    with _explain_errors():
        document = golden_volume(claim, found.name, _bytes(size) if size else read_disk_size(found.tree), storage_class)
    if make_golden_volume(session, document):
        click.echo(f"DataVolume {session.namespace}/{claim} was created")
    DiskWait(session, claim, timeout, Progress).wait_until_filled()
    lead_data_source(session, name, claim)
    click.echo(f"DataSource {session.namespace}/{name} leads to it")


def _bytes(size: str) -> int:
    from kvedge.resources.values.quantities import QuantityError, parse_bytes

    try:
        return parse_bytes(size)
    except QuantityError as error:
        raise Refused(f"--size: {error}", Exit.USAGE) from error


@image.command()
@click.argument("reference")
@_DATA_DIR
def pull(reference: str, data_dir: str | None) -> None:
    """Fetch an image from its registry."""
    with _explain_errors(), _show_progress() as progress:
        insecure = _settings(data_dir).registries_without_tls
        [found] = pull_work(_store(data_dir), reference, insecure=insecure).run(progress)
    click.echo(f"pulled {found.name}")


@image.command("list")
@_DATA_DIR
def list_(data_dir: str | None) -> None:
    """Show what is in the store."""
    with _explain_errors():
        images = _store(data_dir).list()
    rows = [["NAME", "SIZE", "ORIGIN", "CREATED"]]
    rows += [[found.name, _size(found.size), str(found.origin), found.created] for found in images]
    for line in columns(rows):
        click.echo(line)


@image.command()
@click.argument("reference", nargs=-1, required=True)
@_DATA_DIR
def rm(reference: tuple[str, ...], data_dir: str | None) -> None:
    """Remove images that no VM uses."""
    store = _store(data_dir)
    for name in reference:
        with _explain_errors():
            store.remove(name)
        click.echo(f"removed {name}")


def _settings(data_dir: str | None) -> Settings:
    import os

    config = os.environ.get("KVEDGE_CONFIG")
    return load_settings(Path(config) if config else None, os.environ, {"data_dir": data_dir})


def _store(data_dir: str | None) -> ImageStore:
    return ImageStore(_settings(data_dir).data_path / "images")


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except ImageNotFound as error:
        raise Refused(str(error), Exit.NOT_FOUND) from error
    except StoreError as error:
        raise Refused(str(error), Exit.HOST) from error
    except (BadImage, ImageInUse, ImageError) as error:
        raise Refused(str(error)) from error


class _Progress:
    """Draws how much is done, when somebody is there to see it."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        percent = done * 100 // total if total else 0
        if percent != self._shown:
            self._shown = percent
            click.echo(f"\r{percent:3d} %", nl=False, err=True)


@contextmanager
def _show_progress() -> Iterator[_Progress | _Silence]:
    if not sys.stderr.isatty():
        yield _Silence()
        return
    yield _Progress()
    click.echo("\r     \r", nl=False, err=True)


class _Silence:
    """Draws nothing."""

    def __call__(self, done: int, total: int) -> None:
        """Nobody looks."""


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
