"""`kvedge bundle create|show|unpack|install`: one file with all that a site without a network needs.

Called by the group. `create` reads files and writes one; `unpack` writes into the data directory of one box.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.verb_command import VerbGroup
from kvedge.runtime.program import program_file
from kvedge.runtime.settings import Settings, load_settings

if TYPE_CHECKING:
    from kvedge.appliance.bundle.bundle_reader import Bundle

_FILE = click.argument("file", type=click.Path(path_type=Path))
_PATHS = click.Path(exists=True, path_type=Path)
_SHA256 = click.option("--sha256", default="", help="What `kvedge bundle create` said: the sha256 of the whole file.")
_DATA_DIR = click.option("--data-dir", default=None, help="The data directory of the box [/var/lib/kvedge].")
_MANIFEST_ENDINGS = (".yaml", ".yml", ".json")


@click.group(cls=VerbGroup)
def bundle() -> None:
    """Pack program, images and manifests for a site into one file, and use it there."""


@bundle.command()
@_FILE
@click.option("--image", "images", multiple=True, type=_PATHS, help="A disk or an archive of images.")
@click.option("--manifest", "manifests", multiple=True, type=_PATHS, help="A manifest, or a directory of them.")
@click.option("--program", type=_PATHS, default=None, help="The program of the site [this one].")
@click.option("--no-program", is_flag=True, help="Without the program: the site has it.")
def create(
    file: Path, images: tuple[Path, ...], manifests: tuple[Path, ...], program: Path | None, no_program: bool
) -> None:
    """Pack a bundle: `kvedge bundle create site.kvb --image fedora.qcow2 --manifest vms/`."""
    members = dict(_name_images(images))
    for name, path in _name_manifests(manifests):
        if name in members:
            raise Refused(f"{path} and {members[name]} have one name: rename one of them", Exit.USAGE)
        members[name] = path
    if not no_program:
        members["bin/kvedge"] = program or _own_file()
    from kvedge.appliance.bundle.bundle_writer import write_bundle

    with _explain_errors():
        digest = write_bundle(file, members)
    click.echo(f"packed {len(members)} files into {file}")
    click.echo(f"sha256 {digest}")


@bundle.command()
@_FILE
@_SHA256
def show(file: Path, sha256: str) -> None:
    """Check a bundle and show what is in it; changes nothing."""
    found = _check(file, sha256)
    click.echo(f"packed by kvedge {found.description.version}")
    for name, size in sorted(found.sizes.items()):
        click.echo(f"{found.digests[name]}  {size:>12}  {name}")


@bundle.command()
@_FILE
@_SHA256
@CONFIG
@_DATA_DIR
def unpack(file: Path, sha256: str, config: Path | None, data_dir: str | None) -> None:
    """Check a bundle and put its images and manifests into the directories that the box looks at."""
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    program = _unpack(file, sha256, settings)
    if program:
        click.echo(f"the program: {program} install")


@bundle.command()
@_FILE
@_SHA256
@CONFIG
@_DATA_DIR
def install(file: Path, sha256: str, config: Path | None, data_dir: str | None) -> None:
    """Unpack a bundle, then install its program, or upgrade to it."""
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    if os.geteuid() != 0:
        raise Refused("kvedge bundle install needs root", Exit.HOST)
    program = _unpack(file, sha256, settings)
    if program is None:
        raise Refused(f"{file} holds no program; its images and manifests are in place", Exit.USAGE)
    options = [*(["--config", str(config)] if config else []), *(["--data-dir", data_dir] if data_dir else [])]
    sys.stdout.flush()
    done = subprocess.run([program, "install", *options], check=False)
    if done.returncode:
        code = Exit(done.returncode) if done.returncode in {*Exit} else Exit.FAILED
        raise Refused(f"{program} install failed; what was unpacked stays", code)
    shutil.rmtree(program.parent)


def _unpack(file: Path, sha256: str, settings: Settings) -> Path | None:
    """Where the bundle's program is then, if it has one."""
    found = _check(file, sha256)
    from kvedge.appliance.bundle.bundle_reader import PROGRAM_PLACE, unpack_bundle

    with _explain_errors():
        try:
            written = unpack_bundle(found, settings.data_path)
        except OSError as error:
            raise Refused(f"nothing was unpacked into {settings.data_path}: {error.strerror}", Exit.HOST) from error
    for path in written:
        click.echo(f"wrote {settings.data_path / path}")
    return settings.data_path / PROGRAM_PLACE if found.has_program else None


def _check(file: Path, sha256: str) -> Bundle:
    from kvedge.appliance.bundle.bundle_reader import check_bundle

    with _explain_errors():
        return check_bundle(file, sha256)


def _name_images(images: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    from kvedge.standalone.drop_ins.image_names_plan import NoName, disk_name
    from kvedge.storage.image_errors import ImageError
    from kvedge.storage.images.image_import import is_archive

    seen: set[str] = set()
    for path in images:
        try:
            with path.open("rb") as stream:
                if not is_archive(stream.fileno()):
                    disk_name(path.name)
        except OSError as error:
            raise Refused(f"{path}: cannot be read: {error.strerror}") from error
        except (NoName, ImageError) as error:
            raise Refused(f"{path}: {error}") from error
        if path.name in seen:
            raise Refused(f"{path}: another image has this name: rename one of them", Exit.USAGE)
        seen.add(path.name)
        yield f"images/{path.name}", path


def _name_manifests(manifests: tuple[Path, ...]) -> Iterator[tuple[str, Path]]:
    """Checked here, where they can be mended, and not only at the site."""
    from kvedge.standalone.drop_ins.manifest_documents import BadManifest, manifest_documents

    for given in manifests:
        found = [path for path in sorted(given.rglob("*")) if path.is_file()] if given.is_dir() else [given]
        for path in found:
            if path.suffix not in _MANIFEST_ENDINGS:
                if given.is_dir():
                    continue
                raise Refused(f"{path}: a manifest ends with one of {' '.join(_MANIFEST_ENDINGS)}", Exit.USAGE)
            try:
                manifest_documents(path.read_bytes())
            except OSError as error:
                raise Refused(f"{path}: cannot be read: {error.strerror}") from error
            except BadManifest as error:
                raise Refused(f"{path}:{error.line}: {error}") from error
            yield f"manifests/{path.relative_to(given) if given.is_dir() else path.name}", path


def _own_file() -> Path:
    found = program_file()
    if found is None:
        raise Refused("this is a checkout: name the one file with --program, or use --no-program", Exit.USAGE)
    return found


@contextmanager
def _explain_errors() -> Iterator[None]:
    from kvedge.appliance.bundle.bundle_format import BundleError

    try:
        yield
    except BundleError as error:
        raise Refused(str(error)) from error
