"""`kvedge state backup|restore|check`: what makes one box this box, copied, put back and looked at.

Called by the group. Works on the data directory itself: the API is not needed.
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host.box_settings import operators_settings, refuse_kubelet_dir
from kvedge.cli.repository_keys import read_key, split_key
from kvedge.cli.verb_command import VerbGroup
from kvedge.runtime.settings import Settings, load_settings

if TYPE_CHECKING:
    from kvedge.standalone.box_state.state_check import Checked

# A box may have hundreds of volumes.
_MOST_SHOWN = 20
_DATA_DIR = click.option("--data-dir", default=None, help="The data directory of the box [/var/lib/kvedge].")


@click.group(cls=VerbGroup)
def state() -> None:
    """Copy, put back and check what makes a box: objects, authorities, certificates."""


@state.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@CONFIG
@_DATA_DIR
@click.option("--to", "place", default=None, metavar="PLACE", help="The directory or URL of a repository of backups.")
@click.option("--password-file", type=click.Path(path_type=Path), default=None, help="The key of that repository.")
@click.option("--key", "keys", multiple=True, metavar="NAME=FILE", help="What opens the place. Repeatable.")
def backup(
    file: Path | None,
    config: Path | None,
    data_dir: str | None,
    place: str | None,
    password_file: Path | None,
    keys: tuple[str, ...],
) -> None:
    """Write the state into FILE, while kvedge runs or not; images and disks of VMs are not in it.

    With --to it goes encrypted into a repository of backups, which is made where there is none. Who has its key has
    this box: it should be another one than a namespace's. Files of keys must be root's, with mode 600.
    """
    settings = _settings(config, data_dir)
    now = datetime.now(UTC)
    if place is not None:
        if file is not None:
            raise Refused("FILE and --to exclude each other", Exit.USAGE)
        _keep(settings, place, password_file, keys, now)
        return
    if password_file is not None or keys:
        raise Refused("--password-file and --key belong to --to", Exit.USAGE)
    from kvedge.standalone.box_state.state_file import StateError, write_state

    target = file or Path(f"kvedge-state-{settings.effective_node_name}-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    try:
        head = write_state(settings.data_path, target, now)
    except StateError as error:
        raise Refused(str(error)) from error
    click.echo(f"wrote {target}: {head.objects} objects; it holds private keys, keep it as safe as this box")
    from kvedge.appliance.install.volume_places import places_of

    disks, volumes = places_of(settings), []
    for disk in disks:
        # The backup is whole, whatever a disk says.
        with contextlib.suppress(OSError):
            volumes += disk.volumes()
    if volumes or settings.volume_places:
        where = ", ".join(str(disk.path) for disk in disks)
        rest = len(volumes) - _MOST_SHOWN
        shown = ", ".join(path.name for path in volumes[:_MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
        names = f" ({shown})" if shown else ""
        click.echo(f"not in it: the volumes and snapshots of claims in {where}{names}: copy them apart")


@state.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path), required=False)
@CONFIG
@_DATA_DIR
@click.option("--from", "place", default=None, metavar="PLACE", help="The directory or URL of a repository of backups.")
@click.option("--password-file", type=click.Path(path_type=Path), default=None, help="The key of that repository.")
@click.option("--key", "keys", multiple=True, metavar="NAME=FILE", help="What opens the place. Repeatable.")
@click.option("--node", default="", metavar="NAME", help="Whose state, where several boxes keep theirs there.")
@click.option("--id", "number", default="", metavar="ID", help="Which one, by restic's ID; the latest unless given.")
def restore(
    file: Path | None,
    config: Path | None,
    data_dir: str | None,
    place: str | None,
    password_file: Path | None,
    keys: tuple[str, ...],
    node: str,
    number: str,
) -> None:
    """Put the state back from FILE, while kvedge does not run; what was there is kept beside it.

    With --from it comes from a repository in which `kvedge state backup --to` has put it.
    """
    if (file is None) == (place is None):
        raise Refused("one of FILE and --from must be given", Exit.USAGE)
    if place is not None and password_file is None:
        raise Refused("--from needs --password-file, the key of the repository", Exit.USAGE)
    operators = operators_settings(config, data_dir=data_dir)
    refuse_kubelet_dir(operators)
    settings = operators.settings
    from kvedge.standalone.agent.agent_removal import running_pods
    from kvedge.standalone.box_state.state_file import StateError
    from kvedge.standalone.box_state.state_restore import restore_state

    running = running_pods(settings.box_kubelet_path / "pods") if settings.box_kubelet_path.is_dir() else []
    if running:
        raise Refused(
            f"VMs of this box still run ({', '.join(running)}): "
            "`systemctl stop kvedge` and `kvedge killall` end them, then restore again",
            Exit.HOST,
        )
    try:
        if file is not None:
            restored = restore_state(settings.data_path, file, datetime.now(UTC))
        else:
            assert place is not None
            assert password_file is not None
            from kvedge.cli.host.state_places import described_repository
            from kvedge.standalone.box_state.state_repository import fetched_state

            given = dict(split_key(word) for word in keys)
            with (
                described_repository(place, read_key(password_file), given) as repository,
                fetched_state(repository, node, settings.data_path, datetime.now(UTC), number) as fetched,
            ):
                restored = restore_state(settings.data_path, fetched, datetime.now(UTC))
    except StateError as error:
        raise Refused(str(error), Exit.HOST) from error
    except OSError as error:
        raise Refused(f"{settings.data_path}: {error.strerror}; restore again", Exit.HOST) from error
    head = restored.head
    click.echo(f"restored {head.objects} objects of {head.made_at}, written by kvedge {head.version}")
    if restored.aside is not None:
        click.echo(f"what was there is in {restored.aside}: remove it once it is not needed")


@state.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
@CONFIG
@_DATA_DIR
def check(files: tuple[Path, ...], config: Path | None, data_dir: str | None) -> None:
    """Check the store, its copies and the certificates of this box, or FILES of `kvedge state backup`."""
    from kvedge.standalone.box_state.state_check import check_files, check_state

    found = list(check_files(files)) if files else check_state(_settings(config, data_dir).data_path)
    for checked in found:
        click.echo(_line(checked))
    bad = [checked for checked in found if checked.problem]
    if bad:
        raise Refused(f"{len(bad)} of {len(found)} are not sound")


def _keep(settings: Settings, place: str, password_file: Path | None, keys: tuple[str, ...], now: datetime) -> None:
    from kvedge.cli.host.state_places import described_repository, read_own_file, require_place
    from kvedge.standalone.box_node import read_node_name
    from kvedge.standalone.box_state.state_file import StateError
    from kvedge.standalone.box_state.state_repository import keep_state

    require_place(place)
    if password_file is None:
        raise Refused("--to needs --password-file, the key of the repository", Exit.USAGE)
    password = read_own_file(password_file)
    given = dict(split_key(word, read_own_file) for word in keys)
    try:
        with described_repository(place, password, given) as repository:
            node = read_node_name(settings.state_path) or settings.effective_node_name
            head = keep_state(repository, settings.data_path, node, now)
    except StateError as error:
        raise Refused(str(error)) from error
    click.echo(f"state with {head.objects} objects is in the repository; `kvedge state restore --from` brings it back")


def _line(checked: Checked) -> str:
    said = checked.problem or checked.detail
    return f"{'bad' if checked.problem else 'ok ':3}  {checked.what}{': ' if said else ''}{said}"


def _settings(config: Path | None, data_dir: str | None) -> Settings:
    return load_settings(config_path(config), os.environ, {"data_dir": data_dir})
