"""`kvedge image-upload`: an image of this computer into a new or present disk of the cluster, with virtctl's flags.

Called by the group. Prints what happens, and draws a bar where somebody is there to see it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.upload_bar import UploadBar
from kvedge.cli.verb_command import VerbCommand


@click.command("image-upload", cls=VerbCommand)
@click.argument("kind", metavar="dv|pvc")
@click.argument("name")
@session_options
@click.option("--image-path", type=click.Path(path_type=Path), default=None, help="The image.")
@click.option("--archive-path", type=click.Path(path_type=Path), default=None, help="A tar archive instead.")
@click.option("--size", default="", help="The size of the new disk, such as 10Gi.")
@click.option("--storage-class", default="", help="The new claim's storage class.")
@click.option("--access-mode", default="", help="The new claim's access mode.")
@click.option(
    "--volume-mode", type=click.Choice(["", "block", "filesystem"]), default="", help="The new claim's volume mode."
)
@click.option("--no-create", is_flag=True, help="Upload into what is there; make nothing.")
@click.option("--force-bind", is_flag=True, help="Bind the claim at once, without a VM that uses it.")
@click.option("--datasource", is_flag=True, help="Make a DataSource of that name, or lead it to this disk.")
@click.option("--uploadproxy-url", default="", help="The upload proxy; CDIConfig tells it otherwise.")
@click.option("--insecure", is_flag=True, help="Trust any certificate of the upload proxy.")
@click.option("--retry", type=click.IntRange(1, 100), default=5, show_default=True, help="How often to try again.")
@click.option("--wait-secs", type=click.IntRange(1), default=300, show_default=True, help="How long to wait for it.")
def image_upload(
    kind: str,
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    image_path: Path | None,
    archive_path: Path | None,
    **flags: Any,
) -> None:
    """Upload an image into a DataVolume, and so into its claim, or into a claim alone.

    \b
    kvedge image-upload dv fedora --size 10Gi --image-path fedora.qcow2 --datasource
    kvedge image-upload dv fedora --no-create --image-path fedora.qcow2

    An upload that breaks off goes on where it was, also when the verb is run again within five minutes.
    """
    from kvedge.client.uploads.image_upload import ImageUpload, UploadWish
    from kvedge.client.uploads.upload_source import FileSource

    _check_kind(kind)
    file = _file(image_path, archive_path)
    wish = UploadWish(
        name=name,
        source=FileSource(file),
        size=flags["size"],
        storage_class=flags["storage_class"],
        access_mode=flags["access_mode"],
        volume_mode=flags["volume_mode"],
        archive=archive_path is not None,
        bare=kind.lower() == "pvc",
        create=not flags["no_create"],
        force_bind=flags["force_bind"],
        data_source=flags["datasource"],
        proxy_url=flags["uploadproxy_url"],
        insecure=flags["insecure"],
        tries=flags["retry"],
        wait_seconds=flags["wait_secs"],
    )
    if wish.archive and wish.volume_mode == "block":
        raise Refused("--volume-mode: an archive needs filesystem", Exit.USAGE)
    if wish.access_mode == "ReadOnlyMany":
        raise Refused("--access-mode: nothing can be uploaded to a read-only disk: use ReadWriteOnce", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    bar = UploadBar()
    ImageUpload(session, wish, bar.tell, bar.show, time.sleep).run()
    bar.end()
    what = "PersistentVolumeClaim" if wish.bare else "DataVolume"
    click.echo(f"{file} is in {what} {session.namespace}/{name}")


def _check_kind(kind: str) -> None:
    if kind.lower() not in ("dv", "pvc"):
        raise Refused(f"invalid resource type {kind}: use dv or pvc", Exit.USAGE)


def _file(image: Path | None, archive: Path | None) -> Path:
    if (image is None) == (archive is None):
        raise Refused("name one file, by --image-path or by --archive-path", Exit.USAGE)
    found = image or archive
    assert found is not None
    if not found.is_file():
        raise Refused(f"{found}: there is no such file", Exit.USAGE)
    return found
