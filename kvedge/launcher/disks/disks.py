"""Makes a VMI's disks in the Pod: layers over images, empty disks, images on claims, cloud-init's ISO, kernels.

Called by `vmi_preparation`. Writes below the Pod's own volumes; reads images, which are hostile, and Secrets. What is
there already, from a launcher before this one, is used as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kvedge.launcher.disks.claim_disk import claim_disk
from kvedge.launcher.disks.config_files import write_config_disk
from kvedge.launcher.disks.disk_facts import has_direct_io, read_block_size
from kvedge.launcher.disks.disk_plan import (
    ClaimPlan,
    CloudInitPlan,
    ConfigDiskPlan,
    EmptyDiskPlan,
    EphemeralPlan,
    MetricsDiskPlan,
    OverlayPlan,
    VolumePlan,
    plan_volumes,
)
from kvedge.launcher.disks.ephemeral_disk import layer_over_claim
from kvedge.launcher.disks.qemu_img_client import create_qcow2
from kvedge.launcher.domain.context import DiskSource, ImageFormat, KernelFiles
from kvedge.launcher.launcher_errors import BadRequest, DiskFull
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.storage.beneath import hold_directory, open_regular
from kvedge.storage.container_disk import ContainerDisk, ContainerDiskError, find_disk
from kvedge.storage.image_errors import BadImage
from kvedge.storage.qcow2_header import HEADER_SIZE, check_qcow2_header

# Kubernetes' own limit for a Secret.
_LARGEST_SECRET: Final = 1 << 20
_SECTOR: Final = 512
# The largest that a file system asks for: disks with sectors of 4 KiB, and memory.
_BLOCK: Final = 4096


# cloud-init's files by their paths, and the volume's name; the files as others want them.
IsoShaper = Callable[[Mapping[str, bytes], str], Mapping[str, bytes]]


def _keep(files: Mapping[str, bytes], volume: str) -> Mapping[str, bytes]:
    return files


def prepare_volumes(
    vmi: VirtualMachineInstance,
    options: LauncherOptions,
    copied: Mapping[str, int] | None = None,
    shape_iso: IsoShaper = _keep,
    host_devices: Sequence[Mapping[str, object]] = (),
) -> dict[str, DiskSource]:
    """Every disk's source, by the volume's name.

    `copied` are the sizes of disks on claims that come with a guest; `host_devices` is what cloud-init tells of tagged
    devices of the node.

    Raises:
        BadRequest: when a volume cannot become a disk.
        ClaimUnusable: when a claim cannot be a disk as it is.
        DiskFull: when there is no room for one.
    """
    write_iso = partial(_write_cloud_init, vmi, shape_iso=shape_iso, host_devices=host_devices)
    return dict(_prepare(plan, options, write_iso) for plan in plan_volumes(vmi, options, copied))


def _prepare(
    plan: VolumePlan, options: LauncherOptions, write_cloud_init: Callable[[CloudInitPlan], None]
) -> tuple[str, DiskSource]:
    path = plan.path
    try:
        if isinstance(plan, ClaimPlan):
            return plan.volume, claim_disk(plan, options)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        match plan:
            case OverlayPlan():
                return plan.volume, _overlay(plan)
            case EphemeralPlan():
                return plan.base.volume, layer_over_claim(plan, options)
            case EmptyDiskPlan():
                if not os.path.exists(path):
                    create_qcow2(path, plan.size)
                return plan.volume, _own_file(path, "qcow2")
            case CloudInitPlan():
                write_cloud_init(plan)
                _align(path)
                return plan.volume.name, _own_file(path, "raw")
            case MetricsDiskPlan():
                return plan.volume, _metrics_disk(path)
            case ConfigDiskPlan():
                write_config_disk(plan)
                return plan.volume, _own_file(path, "raw")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(path, error.strerror or "") from error
        raise


def _own_file(path: str, image_format: ImageFormat) -> DiskSource:
    """The source of a disk that is the launcher's own file."""
    block_size = read_block_size(path)
    return DiskSource(path=path, format=image_format, direct_io_ok=has_direct_io(path), block_size=block_size)


def _metrics_disk(path: str) -> DiskSource:
    """A disk that is written beside QEMU, which therefore reads it by the host's page cache."""
    # Loaded by the launchers that need them.
    from kvedge.launcher.metrics.metric_xml import UNKNOWN
    from kvedge.launcher.metrics.metrics_image import make_image

    make_image(path, UNKNOWN)
    return DiskSource(path=path, format="raw", readonly=True, direct_io_ok=False)


def _overlay(plan: OverlayPlan) -> DiskSource:
    try:
        disk = find_disk(plan.tree, plan.inner)
        image = f"{plan.tree}/{disk.path}"
        image_format, size = _read_image_facts(plan.tree, disk)
    except (ContainerDiskError, BadImage) as error:
        raise BadRequest(plan.field, str(error), "use an image with one qcow2 or raw disk in /disk") from error
    except FileNotFoundError as error:
        raise BadRequest(plan.field, f"its image is not mounted at {plan.tree}") from error
    if not os.path.exists(plan.path):
        create_qcow2(plan.path, size, (image, image_format))
    return DiskSource(
        path=plan.path,
        format="qcow2",
        backing=(image, image_format),
        direct_io_ok=has_direct_io(plan.path) and has_direct_io(image),
        block_size=read_block_size(plan.path),
    )


def _read_image_facts(tree: str, disk: ContainerDisk) -> tuple[ImageFormat, int]:
    """Format and virtual size, from the first bytes only."""
    if disk.format != "qcow2":
        return "raw", -(-disk.size // _SECTOR) * _SECTOR
    with hold_directory(tree) as root:
        opened = open_regular(root, disk.path)
    try:
        return "qcow2", check_qcow2_header(os.pread(opened, HEADER_SIZE, 0)).virtual_size
    finally:
        os.close(opened)


def _write_cloud_init(
    vmi: VirtualMachineInstance,
    plan: CloudInitPlan,
    shape_iso: IsoShaper,
    host_devices: Sequence[Mapping[str, object]],
) -> None:
    # Loaded by the launchers that need them: an ISO writer is 5 MB.
    from kvedge.launcher.cloudinit.documents import documents, volume_label
    from kvedge.launcher.cloudinit.iso import IsoError, write_iso

    if os.path.exists(plan.path):
        return
    secrets: dict[str, bytes] = {}
    for directory in plan.secrets:
        secrets |= read_secret(directory)
    ssh_keys = [key for directory in plan.ssh_keys for key in read_secret(directory).values()]
    files = shape_iso(documents(vmi, plan.volume, secrets, ssh_keys, host_devices), plan.volume.name)
    try:
        write_iso(plan.path, volume_label(plan.volume), files)
    except IsoError as error:
        raise BadRequest(f"spec.volumes[{plan.volume.name}]", error.reason) from error


def _align(path: str) -> None:
    """Lengthen a raw image to whole blocks: QEMU writes to none whose end it cannot reach with O_DIRECT."""
    size = os.stat(path).st_size
    if size % _BLOCK:
        os.truncate(path, -(-size // _BLOCK) * _BLOCK)


def read_secret(directory: str) -> Mapping[str, bytes]:
    """The keys of a mounted Secret: files that the kubelet puts behind links of its own (`..data`).

    Raises:
        BadRequest: when it is not mounted, or larger than a Secret can be.
    """
    found: dict[str, bytes] = {}
    with contextlib.ExitStack() as stack:
        try:
            names = sorted(os.listdir(directory))
        except FileNotFoundError as error:
            raise BadRequest("spec.volumes", f"the Secret at {directory} is not there") from error
        for name in names:
            if name.startswith("."):
                continue
            file = stack.enter_context(open(f"{directory}/{name}", "rb"))
            found[name] = file.read(_LARGEST_SECRET + 1)
            if len(found[name]) > _LARGEST_SECRET:
                raise BadRequest("spec.volumes", f"the Secret at {directory} is larger than {_LARGEST_SECRET} bytes")
    return found


def prepare_kernel(vmi: VirtualMachineInstance, options: LauncherOptions) -> KernelFiles | None:
    """The kernel and the initrd in the kernel-boot image, where the VMI asks for them.

    Raises:
        BadRequest: when one is not in the image, or is no plain file.
    """
    firmware = vmi.spec.domain.firmware
    boot = firmware.kernel_boot if firmware is not None else None
    if boot is None or boot.container is None:
        return None
    tree = f"{options.image_volumes_directory}/kernel-boot"
    field = "spec.domain.firmware.kernelBoot.container"
    return KernelFiles(
        kernel=_find_file(tree, boot.container.kernel_path, f"{field}.kernelPath"),
        initrd=_find_file(tree, boot.container.initrd_path, f"{field}.initrdPath"),
    )


def _find_file(tree: str, path: str, field: str) -> str | None:
    if not path:
        return None
    relative = path.strip("/")
    try:
        with hold_directory(tree) as root:
            os.close(open_regular(root, relative))
    except OSError as error:
        raise BadRequest(field, f"{path}: {error.strerror}", "check the path within the image") from error
    return f"{tree}/{relative}"
