"""`kvedge launch IMAGE NAME`: a VM from an image in one line, with defaults that suit most images.

Called by the group. Prints what it made, or with --dry-run the manifest that it would have sent.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.login_options import read_password, read_text
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.verb_command import VerbCommand
from kvedge.cli.wait_options import wait_options
from kvedge.client.session import Session

if TYPE_CHECKING:
    from kvedge.client.manifests.vm_manifest import CloudInitData, LaunchOptions


@click.command(cls=VerbCommand)
@click.argument("image")
@click.argument("name", required=False)
@session_options
@click.option("--memory", default=None, help="The guest's memory [1Gi].")
@click.option("--cpu", "cpus", type=click.IntRange(1, 512), default=None, help="The guest's CPUs [1].")
@click.option(
    "--type", "type_", default="", metavar="[KIND/]NAME", help="The instance type, instead of both, such as u1.small."
)
@click.option("--os", default="", metavar="[KIND/]NAME", help="The preference of the guest's system, such as debian.")
@click.option("--disk", default="", help="Copy the image to a disk of this size that lasts as long as the VM.")
@click.option("--storage-class", default="", help="The storage class of that disk; the default one without it.")
@click.option("--install", is_flag=True, help="IMAGE is an installer's: it is in a CD-ROM drive, and --disk is empty.")
@click.option(
    "--cdrom",
    "cdroms",
    multiple=True,
    metavar="IMAGE",
    help="An image in a CD-ROM drive, such as Windows' drivers for virtio.",
)
@click.option("--disk-size", default="", help="An empty disk of this size beside the image's; it ends with the run.")
@click.option("--run-strategy", default="Always", show_default=True, help="When it should run.")
@click.option("-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label for the VM and its guest.")
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    help="A network to be on besides the Pod network (`kvedge network list`).",
)
@click.option("--user", default="", help="The user that cloud-init sets up.")
@click.option("--ssh-key", multiple=True, help="A public key for that user, or a file with one.")
@click.option(
    "--password-file", type=click.Path(path_type=Path), default=None, help="A file with that user's password."
)
@click.option("--user-data", type=click.Path(path_type=Path), default=None, help="A file for cloud-init instead.")
@click.option("--dry-run", is_flag=True, help="Send nothing; print the manifest.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json", "name"]), default=None, help="What to print.")
@wait_options
def launch(
    image: str,
    name: str | None,
    kubeconfig: Path | None,
    namespace: str | None,
    dry_run: bool,
    output: str | None,
    wait: bool,
    timeout: float,
    **flags: Any,
) -> None:
    """Create a VM from an image and start it.

    \b
    kvedge launch local/debian:12 web --memory 512Mi --ssh-key ~/.ssh/id_ed25519.pub --wait
    kvedge launch local/debian:12 db --disk 20Gi --wait
    kvedge launch local/debian:12 big --type u1.small --os debian
    kvedge launch ./debian.qcow2 db --disk 20Gi
    kvedge launch quay.io/containerdisks/fedora:43 --dry-run -o yaml > vm.yaml
    kvedge launch local/windows:11 win --install --disk 64Gi --type u1.large --os windows.11.virtio \\
        --cdrom local/virtio-win:1

    The image is a container disk: of the box's store (`kvedge image list`), or of a registry. What its guest writes
    ends with the run. With --disk the image is copied first, and the disk stays until the VM is deleted; the image may
    then also be a file, which is uploaded, or an http(s) URL.
    """
    from kvedge.cli.output import print_document
    from kvedge.client.manifests.launch_checks import check_launch_disk
    from kvedge.client.manifests.vm_manifest import launch_manifest

    options = _options(image, name, flags)
    document = launch_manifest(options)
    if dry_run:
        print_document(document, "yaml" if output in (None, "name") else str(output))
        return
    session = open_session(kubeconfig, namespace)
    if options.disk is not None:
        check_launch_disk(session, options.name)
    made = _create(session, document)
    vm = made["metadata"]["name"]
    if output is None:
        click.echo(f"VM {vm} was created{_explain_disk(options, wait)}")
    elif output == "name":
        click.echo(f"virtualmachine.kubevirt.io/{vm}")
    else:
        print_document(made, output)
    if options.disk is not None:
        _fill_disk(session, options, wait, timeout)
    if wait:
        from kvedge.cli.progress import Progress
        from kvedge.client.vm_wait import VmWait

        told = VmWait(session, vm, timeout, Progress).wait_until_running()
        click.echo(told, err=output is not None)


def _explain_disk(options: LaunchOptions, wait: bool) -> str:
    from kvedge.client.manifests.launch_disk import disk_name

    if options.disk is None or wait or options.disk.file is not None:
        return ""
    return f"; `kvedge get dv {disk_name(options.name)}` shows how far its disk is, and it starts once that is filled"


def _fill_disk(session: Session, options: LaunchOptions, wait: bool, timeout: float) -> None:
    """Upload the file, if it is one, and wait until the disk is filled if that was asked for."""
    import time

    from kvedge.cli.progress import Progress
    from kvedge.cli.upload_bar import UploadBar
    from kvedge.client.disk_wait import DiskWait
    from kvedge.client.errors import ClientError
    from kvedge.client.manifests.launch_disk import disk_name
    from kvedge.client.uploads.image_upload import ImageUpload, UploadWish
    from kvedge.client.uploads.upload_source import FileSource

    assert options.disk is not None
    name, file = disk_name(options.name), options.disk.file
    if file is not None:
        wish = UploadWish(name=name, source=FileSource(file), create=False, is_expected=True, wait_seconds=timeout)
        bar = UploadBar()
        try:
            ImageUpload(session, wish, bar.tell, bar.show, time.sleep).run()
        except ClientError as error:
            bar.end()
            again = f"kvedge image-upload dv {name} --no-create --image-path {file}"
            raise type(error)(
                f"{error}; VM {options.name} waits for its disk: `{again}` tries again, `kvedge delete vm"
                f" {options.name}` takes it away"
            ) from error
        bar.end()
    if wait:
        DiskWait(session, name, timeout, Progress).wait_until_filled()


def _options(image: str, name: str | None, flags: dict[str, Any]) -> LaunchOptions:
    from kvedge.client.manifests.launch_choice import LaunchChoice, launch_options

    return launch_options(
        LaunchChoice(
            image=image,
            name=name or "",
            memory=flags["memory"],
            cpus=flags["cpus"],
            type=flags["type_"],
            os=flags["os"],
            disk=flags["disk"],
            storage_class=flags["storage_class"],
            disk_size=flags["disk_size"],
            run_strategy=flags["run_strategy"],
            labels=tuple(_label(text) for text in flags["labels"]),
            cloud_init=_cloud_init(flags),
            networks=flags["networks"],
            cdroms=flags["cdroms"],
            installs=flags["install"],
        )
    )


def _cloud_init(flags: dict[str, Any]) -> CloudInitData:
    from kvedge.client.manifests.cloud_config import Login
    from kvedge.client.manifests.vm_manifest import CloudInitData

    password = read_password(flags["password_file"]) if flags["password_file"] is not None else ""
    login = Login(flags["user"], password, _keys(flags["ssh_key"]))
    if flags["user_data"] is None:
        return CloudInitData(login=login)
    if login.is_given:
        raise Refused("--user-data takes the place of --user, --ssh-key and --password-file", Exit.USAGE)
    return CloudInitData(user_data=read_text("user-data", flags["user_data"]))


def _keys(values: tuple[str, ...]) -> tuple[str, ...]:
    """Keys as they are, and those in files: no key has a path's look."""
    from kvedge.client.manifests.launch_choice import read_keys

    found: list[str] = []
    for value in values:
        is_file = value.startswith(("/", "./", "../", "~")) or value.endswith(".pub")
        text = read_text("ssh-key", Path(value).expanduser()) if is_file else value
        found += read_keys("ssh-key", text, value)
    return tuple(found)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Refused(f"--label: {text!r} is no label: write KEY=VALUE", Exit.USAGE)
    return key, value


def _create(session: Session, document: dict[str, Any]) -> dict[str, Any]:
    from kvedge.kube.errors import AlreadyExists
    from kvedge.resources.types.vm import VirtualMachine

    name = document["metadata"]["name"]
    path = VirtualMachine.KIND.path(session.namespace)
    try:
        made: dict[str, Any] = session.client.request("POST", path, document, {"fieldManager": "kvedge"})
    except AlreadyExists as error:
        raise Refused(f"{error.message}: start it with `kvedge start {name}`, or choose another name") from error
    return made
