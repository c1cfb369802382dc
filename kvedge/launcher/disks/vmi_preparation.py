"""From a Sync request to a domain document, with every file that it names in its place.

Called in the preparation process before the guest is started. Pure decisions are in `disk_plan` and in the converter;
`disks` makes the files.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from kvedge.launcher.disks.acpi_tables import find_acpi_tables
from kvedge.launcher.disks.disks import prepare_kernel, prepare_volumes
from kvedge.launcher.disks.firmware_files import find_ovmf
from kvedge.launcher.disks.hotplug_sources import check_arrival, with_present_volumes
from kvedge.launcher.disks.ignition import write_ignition
from kvedge.launcher.disks.lasting_state import nvram_path, prepare_state
from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.domain.context import (
    BALLOON_STATS_SECONDS,
    Architecture,
    DomainContext,
    InterfaceTarget,
    OvmfFiles,
    Smbios,
)
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.launcher.domain.host_cpus import HostCpus
from kvedge.launcher.domain.placement.pin_plan import plan_pins
from kvedge.launcher.domain.platform import platform_of
from kvedge.launcher.hooks.vmi_hooks import VmiHooks
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.qemu_record import has_recorded_device
from kvedge.launcher.node_cpus import keep_launcher_to, read_host_cpus
from kvedge.launcher.passt.passt_program import find_obstacle
from kvedge.launcher.passthrough.functions import functions_of
from kvedge.launcher.passthrough.host_devices import host_devices_of
from kvedge.launcher.passthrough.tagged_devices import describe_tagged
from kvedge.launcher.shares.guest_shares import await_shares
from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus
from kvedge.resources.names import (
    AGENT_SOCKET,
    LIBRARY_DIRECTORIES,
    METRICS_SOCKET,
    SERIAL_SOCKET,
    SPICE_MODULE,
    SPICE_SOCKET,
    USB_SOCKET,
    VNC_SOCKET,
)
from kvedge.resources.types.guest_nics import nic_queues
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import GuestInterface, NodeOptions, SyncRequest

_EMULATORS: Final[Mapping[Architecture, str]] = {
    "x86_64": "/usr/bin/qemu-system-x86_64",
    "aarch64": "/usr/bin/qemu-system-aarch64",
}


class VmiPreparation:
    """Prepares the one VMI that this launcher was started for."""

    def __init__(self, options: LauncherOptions, libvirt_version: int) -> None:
        self._options = options
        self._libvirt_version = libvirt_version

    def prepare(self, request: SyncRequest, copied: Mapping[str, int] | None = None) -> Prepared:
        """Make the volumes and the document; `copied` are the sizes of disks on claims that come with a guest.

        Raises:
            BadRequest: when no domain can be made of the VMI.
            ClaimUnusable: when a claim is not as the guest needs it.
            DiskFull: when a volume does not fit.
            LauncherError: of other kinds, when trying again may help.
        """
        try:
            vmi = decode_json(VirtualMachineInstance, request.vmi_json)
            self._check_identity(vmi)
            asked = vmi
            vmi, coming = with_present_volumes(asked, self._options.root)
            if self._options.incoming:
                check_arrival(asked, coming)
            prepare_state(vmi, self._options)
            hooks = self._hooks(request)
            context = self._context(vmi, request.interfaces, request.options)
            tagged = describe_tagged(vmi, context, self._options.root, comes=bool(self._options.incoming))
            sources = prepare_volumes(vmi, self._options, copied, hooks.shape_iso, tagged) | coming
            await_shares(vmi, self._options.root)
            context = replace(context, disk_sources=sources)
            if own := plan_pins(vmi, context, 0).emulator:
                keep_launcher_to(own)
            notes = tuple(source.note for source in sources.values() if source.note)
            xml, changed = hooks.shape_domain(render_domain(vmi, context))
            return Prepared(xml, paused=context.start_paused, notes=notes, hooks=tuple(changed))
        except ConversionError as error:
            raise BadRequest(error.field, error.detail, error.remedy) from error
        except DecodeError as error:
            raise BadRequest(error.path or "the VMI", error.detail) from error

    def _hooks(self, request: SyncRequest) -> VmiHooks:
        # For a guest that comes as well: sidecars make ready what its interfaces need here. Its document comes with it.
        if not self._options.hook_sidecars:
            return VmiHooks()
        # Loaded by the launchers that need them: grpc is 20 MB.
        from kvedge.launcher.hooks.hook_calls import START_SECONDS, HookCalls

        return VmiHooks(HookCalls(self._options, START_SECONDS), request.vmi_json)

    def _check_identity(self, vmi: VirtualMachineInstance) -> None:
        """A launcher serves the VMI of its own Pod only."""
        expected = (self._options.namespace, self._options.name, self._options.uid)
        found = (vmi.metadata.namespace, vmi.metadata.name, vmi.metadata.uid)
        if found != expected:
            raise BadRequest("metadata", f"this is the launcher of {'/'.join(expected)}, not of {'/'.join(found)}")

    def _context(
        self, vmi: VirtualMachineInstance, interfaces: Iterable[GuestInterface], node: NodeOptions
    ) -> DomainContext:
        """All but the disks."""
        directory = self._options.run_directory
        architecture = self._architecture()
        return DomainContext(
            architecture=architecture,
            # A foreign guest has no other way to run.
            emulation=node.emulation or not _has_kvm() or bool(self._options.guest_architecture),
            emulator=_EMULATORS[architecture],
            root=self._options.root,
            serial_socket=f"{directory}/{SERIAL_SOCKET}",
            # libvirt's own place for it holds the domain's name: with a long one the path is longer than sockets allow.
            agent_channel=f"{directory}/{AGENT_SOCKET}",
            metrics_channel=f"{directory}/{METRICS_SOCKET}",
            usb_socket=f"{directory}/{USB_SOCKET}",
            redirects_usb=self._redirects_usb(),
            serial_log=f"{directory}/{SERIAL_SOCKET}-log",
            vnc_socket=f"{directory}/{VNC_SOCKET}",
            spice_socket=f"{directory}/{SPICE_SOCKET}" if has_spice() else None,
            interfaces=_targets(vmi, interfaces),
            functions=functions_of(vmi, self._options.root, os.environ),
            host_devices=host_devices_of(vmi, self._options.root, os.environ),
            smbios=_smbios(node),
            ovmf=self._ovmf(vmi, node),
            has_tpm_emulator=has_tpm_emulator(),
            passt_obstacle=_passt_obstacle(interfaces),
            kernel_boot=prepare_kernel(vmi, self._options),
            acpi_tables=find_acpi_tables(vmi, self._options),
            ignition=write_ignition(vmi, self._options),
            start_paused=node.start_paused or vmi.spec.start_strategy == "Paused",
            host_cpus=read_host_cpus() if has_dedicated_cpus(vmi.spec.domain) else HostCpus(),
            libvirt_version=self._libvirt_version,
            free_page_reporting=not node.keep_free_pages,
            balloon_stats_seconds=_balloon_stats_seconds(node),
        )

    def _architecture(self) -> Architecture:
        """The guest's: this host's, unless the launcher was started for trying another one."""
        match self._options.guest_architecture:
            case "x86_64" | "aarch64" as foreign:
                return foreign
        return this_architecture()

    def _redirects_usb(self) -> bool:
        """What libvirt has recorded of the node's QEMU; where it has recorded nothing, it will say so itself."""
        recorded = has_recorded_device(self._options.libvirt_root, _EMULATORS[self._architecture()], "usb-redir")
        return recorded is not False

    def _ovmf(self, vmi: VirtualMachineInstance, node: NodeOptions) -> OvmfFiles | None:
        wanted = platform_of(vmi, self._architecture())
        if wanted.firmware != "uefi":
            return None
        nvram = nvram_path(vmi, self._options)
        return find_ovmf(node.ovmf_path, nvram, wanted)


def _targets(vmi: VirtualMachineInstance, prepared: Iterable[GuestInterface]) -> dict[str, InterfaceTarget]:
    """The taps that the handler has made, with as many queues as it gave them by the same rule."""
    queues = {item.name: nic_queues(vmi, item) for item in vmi.spec.domain.devices.interfaces}
    return {
        entry.name: InterfaceTarget(tap=entry.tap, mac=entry.mac, mtu=entry.mtu, queues=queues.get(entry.name, 1))
        for entry in prepared
    }


def _passt_obstacle(prepared: Iterable[GuestInterface]) -> tuple[str, str] | None:
    asked = [entry.passt for entry in prepared if entry.HasField("passt")]
    return find_obstacle(asked) if asked else None


def _has_kvm() -> bool:
    """Whether this Pod was given KVM: the controller asks for none while the KubeVirt object wants emulation."""
    return os.path.exists("/dev/kvm")


def has_spice() -> bool:
    """Whether this node's QEMU can load what speaks SPICE."""
    return any(os.path.exists(f"{directory}/{SPICE_MODULE}") for directory in LIBRARY_DIRECTORIES)


def has_tpm_emulator() -> bool:
    """Whether libvirt finds on this node what it starts and sets up a TPM with."""
    return all(shutil.which(program) is not None for program in ("swtpm", "swtpm_setup"))


def this_architecture() -> Architecture:
    """This host's.

    Raises:
        BadRequest: when no guest can run on it.
    """
    machine = platform.machine()
    if machine == "x86_64":
        return "x86_64"
    if machine == "aarch64":
        return "aarch64"
    raise BadRequest("spec.architecture", f"this node is {machine}, which kvedge cannot run guests on")


def _balloon_stats_seconds(node: NodeOptions) -> int:
    return node.balloon_stats_seconds if node.HasField("balloon_stats_seconds") else BALLOON_STATS_SECONDS


def _smbios(node: NodeOptions) -> Smbios:
    given = {
        "family": node.smbios_family,
        "manufacturer": node.smbios_manufacturer,
        "product": node.smbios_product,
        "version": node.smbios_version,
        "sku": node.smbios_sku,
    }
    return Smbios(**{key: value for key, value in given.items() if value})
