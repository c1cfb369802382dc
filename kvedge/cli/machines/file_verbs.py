"""`kvedge export` and `kvedge import`: one VM with its disks as a file, and a VM made of one.

Called by the group. Prints what happens, and draws a bar where somebody is there to see it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.tidy_end import tidy_end
from kvedge.cli.upload_bar import UploadBar
from kvedge.cli.verb_command import VerbCommand, vm_argument

if TYPE_CHECKING:
    from kvedge.client.vm_files.open_export import ExportOpening

_KEY: click.Path = click.Path(path_type=Path, exists=True, dir_okay=False)
_SECONDS: click.FloatRange = click.FloatRange(min=1)


@click.command("export", cls=VerbCommand)
@vm_argument("vm")
@click.argument("file", type=click.Path(path_type=Path))
@session_options
@click.option("--snapshot", default="", metavar="NAME", help="Of this snapshot, whatever the VM does.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["kvedge", "qcow2", "ova"]),
    default="kvedge",
    show_default=True,
    help="For other programs: qcow2 makes a directory of images, ova an appliance.",
)
@click.option("--with-secrets", is_flag=True, help="Take the Secrets and ConfigMaps along that the VM names.")
@click.option("--sign-key", type=_KEY, default=None, help="Sign the file with this Ed25519 key, such as OpenSSH's.")
@click.option("--timeout", type=_SECONDS, default=600.0, show_default=True, help="Seconds until the disks can be read.")
def export(
    vm: str,
    file: Path,
    kubeconfig: Path | None,
    namespace: str | None,
    snapshot: str,
    format_: str,
    with_secrets: bool,
    sign_key: Path | None,
    timeout: float,
) -> None:
    """Write a VM with its disks into one file.

    \b
    kvedge export web /backup/web.kvedge
    kvedge export web web.kvedge --with-secrets --sign-key ~/.ssh/id_ed25519
    kvedge export web web.ova --format ova

    A stopped VM is read as it is. Of one that runs, a snapshot is taken first, and removed afterwards. The file is a
    tar of chunks that zstd has compressed, with their digests, which can be read without kvedge as well.
    """
    from kvedge.cli.progress import Progress
    from kvedge.client.exports.new_file import check_free
    from kvedge.client.vm_files.archive_export import write_archive
    from kvedge.client.vm_files.archive_signature import load_signer
    from kvedge.client.vm_files.image_export import find_qemu_img, write_images, write_ova
    from kvedge.client.vm_files.open_export import ExportOpening, ExportWish
    from kvedge.client.volumes.volume_usage import bytes_text

    check_free(file)
    if format_ != "kvedge":
        if sign_key is not None:
            raise Refused("--sign-key: only kvedge's own format is signed; leave it or --format out", Exit.USAGE)
        # Before hours of reading.
        find_qemu_img()
    signer = None if sign_key is None else load_signer(sign_key)
    wish = ExportWish(vm, snapshot, with_secrets=with_secrets, wait_seconds=timeout)
    bar = UploadBar()
    opening: ExportOpening = ExportOpening(open_session(kubeconfig, namespace), wish, bar.tell, Progress)
    with tidy_end(), opening.open() as opened:
        try:
            if format_ == "qcow2":
                size = write_images(opened, file, bar.show)
            elif format_ == "ova":
                size = write_ova(opened, file, bar.show)
            else:
                size = write_archive(opened, file, signer, bar.show)
        finally:
            bar.end()
        disks = sum(disk.size for disk in opened.manifest.disks)
    click.echo(f"VM {vm} is in {file}: {bytes_text(size)}, of disks of {bytes_text(disks)}")


@click.command("import", cls=VerbCommand)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@session_options
@click.option("--name", default="", help="What the VM is called here; its disks are then NAME-VOLUME.")
@click.option("--storage-class", default="", help="The class of its disks; as they had it, or the default one.")
@click.option("--start", is_flag=True, help="Start it when it is there.")
@click.option("--new-macs", is_flag=True, help="Give its interfaces other MAC addresses.")
@click.option("--verify-key", type=_KEY, default=None, help="Take the file only if it is signed by this public key.")
@click.option("--uploadproxy-url", default="", help="The upload proxy; CDIConfig tells it otherwise.")
@click.option("--insecure", is_flag=True, help="Trust any certificate of the upload proxy.")
@click.option("--timeout", type=_SECONDS, default=300.0, show_default=True, help="Seconds until a disk can be sent.")
def import_(
    file: Path,
    kubeconfig: Path | None,
    namespace: str | None,
    name: str,
    storage_class: str,
    start: bool,
    new_macs: bool,
    verify_key: Path | None,
    uploadproxy_url: str,
    insecure: bool,
    timeout: float,
) -> None:
    """Make a VM of a file: what `kvedge export` wrote, an appliance (OVA), or a libvirt domain with its disks.

    \b
    kvedge import web.kvedge --start
    kvedge import web.kvedge --name web-2 --new-macs --storage-class local
    kvedge import appliance.ova
    virsh dumpxml --inactive web > web.xml && kvedge import web.xml

    The whole file is checked before anything is made, and what is there already is never written over. An import that
    fails leaves nothing. What of a foreign VM has no equal here is told.
    """
    from kvedge.client.vm_files.archive_signature import load_public_key
    from kvedge.client.vm_files.imported_vm import ImportWish
    from kvedge.client.vm_files.machine_reader import open_machine
    from kvedge.client.vm_files.vm_import import VmImport

    trusted = None if verify_key is None else load_public_key(verify_key)
    session = open_session(kubeconfig, namespace)
    wish = ImportWish(name, storage_class, start=start, new_macs=new_macs)
    bar = UploadBar()
    run = VmImport(
        session,
        wish,
        bar.tell,
        bar.show,
        wait_seconds=timeout,
        insecure=insecure,
        proxy_url=uploadproxy_url,
        pause=time.sleep,
    )
    try:
        bar.tell(f"checking {file}")
        with tidy_end(), open_machine(file, trusted, bar.show, bar.tell) as machine:
            made = run.run(machine)
    finally:
        bar.end()
    click.echo(f"VM {session.namespace}/{made} is imported{' and starts' if start else f': kvedge start {made}'}")
