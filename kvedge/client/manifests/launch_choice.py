"""What a user chooses for a new VM, and whether the choices go together: the rules of `kvedge launch`.

Called by the verb, and by the web console's form, for which no file is looked at. Sends nothing.
"""

from __future__ import annotations

from msgspec import Struct, field

from kvedge.client.errors import FlagError
from kvedge.client.manifests.launch_disk import LaunchDisk, find_file, is_path, is_remote, launch_disk
from kvedge.client.manifests.vm_manifest import RUN_STRATEGIES, CloudInitData, LaunchOptions
from kvedge.client.random_names import random_name
from kvedge.client.session import check_name

_DEFAULT_MEMORY = "1Gi"


class LaunchChoice(Struct, frozen=True):
    """As it was given: empty, or None, for what was left out. One of image, claim and DataSource is given.

    `may_be_file` tells whether the image may be a file of this computer. One who asks from another computer must not
    learn which files are here.
    """

    image: str = ""
    claim: str = ""
    data_source: str = ""
    name: str = ""
    memory: str | None = None
    cpus: int | None = None
    type: str = ""
    os: str = ""
    disk: str = ""
    storage_class: str = ""
    disk_size: str = ""
    run_strategy: str = "Always"
    labels: tuple[tuple[str, str], ...] = ()
    cloud_init: CloudInitData = field(default_factory=CloudInitData)
    networks: tuple[str, ...] = ()
    # Images in CD-ROM drives, and whether the image is one more: that of an installer, for an empty disk.
    cdroms: tuple[str, ...] = ()
    installs: bool = False
    may_be_file: bool = True


def launch_options(choice: LaunchChoice) -> LaunchOptions:
    """The options of the manifest.

    Raises:
        UsageError: for what makes no sense; mostly a FlagError with the flag.
    """
    if not (choice.claim or choice.data_source):
        _check_image(choice.image)
    for image in choice.cdroms:
        _check_drive("cdrom", image, choice.may_be_file)
    if choice.installs:
        _check_drive("install", choice.image, choice.may_be_file)
        if not choice.disk:
            raise _fault("install", "needs --disk SIZE, such as --disk 64Gi: the empty disk that it installs to")
    if choice.run_strategy not in RUN_STRATEGIES:
        raise _fault("run-strategy", f"{choice.run_strategy} is not one of {', '.join(RUN_STRATEGIES)}")
    for flag, value in (("memory", choice.memory), ("cpu", choice.cpus)):
        if choice.type and value is not None:
            excluded = f"--type and --{flag} exclude each other"
            raise FlagError("type", f"an instance type and {flag} exclude each other", excluded)
    return LaunchOptions(
        name=check_name(choice.name) if choice.name else random_name("vm"),
        image=choice.image,
        memory=choice.memory or _DEFAULT_MEMORY,
        cpus=choice.cpus or 1,
        type=choice.type,
        os=choice.os,
        disk_size=choice.disk_size,
        disk=_disk(choice),
        claim=choice.claim,
        run_strategy=choice.run_strategy,
        labels=choice.labels,
        cloud_init=choice.cloud_init,
        networks=choice.networks,
        cdroms=choice.cdroms,
        installs=choice.installs,
    )


def read_keys(flag: str, text: str, source: str) -> tuple[str, ...]:
    """The public keys of a text, one a line or with commas between them; `source` is what a user calls the text.

    Raises:
        FlagError: for a private key.
    """
    if "PRIVATE KEY" in text:
        text = f"--{flag}: {source} is a private key: name the public one, {source}.pub"
        raise FlagError(flag, "this is a private key: give the public one, of the file that ends in .pub", text)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(key.strip() for line in lines for key in line.split(",") if key.strip())


def _check_image(image: str) -> None:
    if not _is_name(image):
        why = f"{image!r} is no image: write a name such as local/debian:12"
        raise FlagError("image", why, why)


def _is_name(image: str) -> bool:
    return bool(image) and image.isprintable() and " " not in image


def _check_drive(flag: str, image: str, may_be_file: bool) -> None:
    """A drive has an image of the box's store or of a registry: nothing is copied that only reads."""
    if is_path(image) or is_remote(image) or (may_be_file and find_file(image) is not None):
        raise _fault(flag, f"{image} is a file or a URL: `kvedge image import FILE NAME` makes an image of it first")
    if not _is_name(image):
        raise _fault(flag, f"{image!r} is no image: write a name such as local/virtio-win:1")


def _disk(choice: LaunchChoice) -> LaunchDisk | None:
    if choice.claim:
        if choice.disk or choice.storage_class:
            raise _fault("disk", "a claim that is there is used as it is: leave size and storage class out")
        return None
    if choice.data_source:
        if not choice.disk:
            raise _fault("disk", "the disk that the DataSource is copied to needs a size, such as 20Gi")
        return LaunchDisk(choice.disk, {}, choice.storage_class, data_source=check_name(choice.data_source))
    if choice.installs:
        return LaunchDisk(choice.disk, {"blank": {}}, choice.storage_class)
    file = find_file(choice.image) if choice.may_be_file else None
    if choice.disk:
        return launch_disk(choice.image, file, choice.disk, choice.storage_class, choice.run_strategy)
    if choice.storage_class or is_remote(choice.image) or file is not None:
        why = "--storage-class" if choice.storage_class else f"{choice.image} is a file or a URL, and"
        text = f"{why} needs --disk SIZE, such as --disk 20Gi: the disk that the image is copied to"
        raise FlagError("disk", "needed here, such as 20Gi: the image is copied to a disk of this size", text)
    return None


def _fault(flag: str, why: str) -> FlagError:
    return FlagError(flag, why, f"--{flag}: {why}")
