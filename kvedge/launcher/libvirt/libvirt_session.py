"""The launcher's libvirt: the embedded QEMU driver, and the one domain that it has.

Part of the door to libvirt; used by the parts of `run` and `agent`. Everything that leaves is of kvedge's own types,
every libvirtError becomes one of `launcher_errors`. Calls may come from any thread: libvirt locks the domain itself.
"""

from __future__ import annotations

import contextlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import libvirt

from kvedge.launcher.launcher_errors import DomainMissing, LibvirtFailed, Unanswered, Unreadable, WrongState
from kvedge.launcher.libvirt.domain_backup import DomainBackup
from kvedge.launcher.libvirt.domain_bitmaps import DomainBitmaps
from kvedge.launcher.libvirt.domain_copies import DomainCopies
from kvedge.launcher.libvirt.domain_disks import ALIAS, drive_with_medium
from kvedge.launcher.libvirt.domain_facts import DiskSize, DomainFacts, DomainLook
from kvedge.launcher.libvirt.domain_launch_security import DomainLaunchSecurity
from kvedge.launcher.libvirt.domain_memory import DomainMemory
from kvedge.launcher.libvirt.domain_migration import DomainMigration
from kvedge.launcher.libvirt.domain_nics import nic_with_link
from kvedge.launcher.libvirt.domain_reading import memory_device_with, read_facts, read_look, read_sizes
from kvedge.launcher.libvirt.domain_stats import DomainDirtyRate, read_figures
from kvedge.launcher.libvirt.flash_reading import find_flash, read_flash
from kvedge.launcher.libvirt.host_reading import read_host_documents
from kvedge.launcher.libvirt.libvirt_errors import translate_errors
from kvedge.launcher.libvirt.libvirt_events import start_event_loop, watch_events
from kvedge.launcher.libvirt.node_capabilities import HostDocuments
from kvedge.launcher.libvirt.qemu_record import read_recorded_version
from kvedge.launcher.libvirt.stats_figures import DomainFigures

# Of a picture, read at once; libvirt hands out no more than 256 KiB.
_PIECE: Final = 64 << 10


class LibvirtSession:
    """One open embedded driver, for one domain name."""

    def __init__(self, root: str, domain_name: str, daemon_socket: str = "") -> None:
        """Open the driver at `root`, or the daemon that has it; what runs there already is found again.

        Raises:
            LauncherError: when it cannot be opened.
        """
        self._name = domain_name
        self._root = root
        self._pid_path = f"{root}/run/qemu/{domain_name}.pid"
        # Each error is raised: libvirt's print of it only fills the log.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        start_event_loop()
        with translate_errors("opening libvirt"):
            self._connection = libvirt.open(
                f"qemu+unix:///session?socket={daemon_socket}" if daemon_socket else f"qemu:///embed?root={root}"
            )
        self.migration = DomainMigration(self._domain)
        self.backup = DomainBackup(self._domain)
        self.bitmaps = DomainBitmaps(self._domain)
        self.copies = DomainCopies(self._domain)
        self.dirty_rate = DomainDirtyRate(self._connection, self._domain)
        self.launch_security = DomainLaunchSecurity(self._connection, self._domain)
        self.memory = DomainMemory(self._connection, self._domain)

    @property
    def libvirt_version(self) -> int:
        """As libvirt writes it: major * 1,000,000 + minor * 1,000 + release."""
        return int(libvirt.getVersion())

    def watch(self, on_event: Callable[[], None]) -> None:
        """Call `on_event()` in libvirt's thread whenever the domain may have changed."""
        with translate_errors("watching events"):
            watch_events(self._connection, on_event)

    def facts(self) -> DomainFacts | None:
        """What the domain is like now; None when none is defined."""
        try:
            domain = self._domain()
        except DomainMissing:
            return None
        with translate_errors("reading the domain"):
            return read_facts(domain, self._pid)

    def look_closely(self) -> DomainLook | None:
        """The domain as people want to see it; None when none is defined."""
        try:
            domain = self._domain()
        except DomainMissing:
            return None
        with translate_errors("looking at the domain"):
            # libvirt itself would tell QEMU's version only after it has started every QEMU that the host has installed.
            return read_look(domain, self.libvirt_version, partial(read_recorded_version, self._root))

    def read_stats(self, *, ask_qemu: bool) -> DomainFigures:
        """What the guest has used; without `ask_qemu` only what the host knows, which never waits for QEMU.

        Raises:
            DomainMissing: when none is defined, or it does not run.
        """
        with translate_errors("reading what the guest has used"):
            return read_figures(self._connection, self._domain(), self._pid(), ask_qemu=ask_qemu)

    def define(self, xml: str) -> None:
        """Define the domain; raises BadRequest when libvirt finds fault with the document."""
        with translate_errors("defining the domain"):
            self._connection.defineXML(xml)

    def start(self, *, paused: bool) -> None:
        """Start the defined domain."""
        flags = libvirt.VIR_DOMAIN_START_PAUSED if paused else 0
        with translate_errors("starting the domain"):
            self._domain().createWithFlags(flags)

    def pause(self) -> None:
        """Stop the guest's CPUs."""
        with translate_errors("pausing"):
            self._domain().suspend()

    def unpause(self) -> None:
        """Let the guest's CPUs run."""
        with translate_errors("unpausing"):
            self._domain().resume()

    def reset(self) -> None:
        """As the reset button does."""
        with translate_errors("resetting"):
            self._domain().reset(0)

    def soft_reboot(self, *, agent: bool) -> None:
        """Ask the guest to reboot, by its agent (which may take a minute) or by ACPI."""
        flags = libvirt.VIR_DOMAIN_REBOOT_GUEST_AGENT if agent else libvirt.VIR_DOMAIN_REBOOT_ACPI_POWER_BTN
        with translate_errors("rebooting"):
            self._domain().reboot(flags)

    def shut_down(self, *, agent: bool) -> None:
        """Ask the guest to power off, by its agent (which may take a minute) or by the ACPI power button."""
        flags = libvirt.VIR_DOMAIN_SHUTDOWN_GUEST_AGENT if agent else libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
        with translate_errors("shutting down"):
            self._domain().shutdownFlags(flags)

    def destroy(self, *, graceful: bool) -> None:
        """End QEMU: SIGTERM, which lets it write out its caches; unless graceful, also SIGKILL.

        Raises:
            Unanswered: when a graceful end took too long.
        """
        flags = libvirt.VIR_DOMAIN_DESTROY_GRACEFUL if graceful else 0
        try:
            with translate_errors("ending QEMU"):
                self._domain().destroyFlags(flags)
        except LibvirtFailed as error:
            # This is how libvirt says that SIGTERM was not enough.
            raise Unanswered(str(error)) from error

    def attach_device(self, xml: str) -> None:
        """Plug a disk or a NIC into the running domain.

        The live domain only, as with all changes of devices: the defined one is never started a second time.
        """
        with translate_errors("attaching the device"):
            self._domain().attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def detach_device(self, name: str) -> None:
        """Ask the guest to release what the VMI calls so; an event tells when it has, nothing waits for it."""
        with translate_errors("detaching the device"):
            self._domain().detachDeviceAlias(ALIAS + name, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def change_medium(self, name: str, path: str, *, block: bool) -> None:
        """Put what is at `path` into a CD-ROM drive, "" to empty it; without force, so that a locked tray refuses."""
        with translate_errors("changing the medium"):
            domain = self._domain()
            drive = drive_with_medium(ElementTree.fromstring(domain.XMLDesc()), name, path, block=block)
            text = ElementTree.tostring(drive, encoding="unicode")
            domain.updateDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def set_link(self, name: str, *, down: bool) -> None:
        """Give a NIC its carrier, or take it away.

        Raises:
            WrongState: when the domain has no such NIC.
        """
        with translate_errors("changing the NIC's link"):
            domain = self._domain()
            text = nic_with_link(ElementTree.fromstring(domain.XMLDesc()), ALIAS + name, down=down)
            if text is None:
                raise WrongState(f"the domain has no NIC {name}")
            domain.updateDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def add_io_thread(self, number: int) -> None:
        """Start an IO thread, which a disk that comes is to have."""
        with translate_errors("adding an IO thread"):
            self._domain().addIOThread(number, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def set_vcpus(self, count: int) -> None:
        """Give the running guest this many vCPUs, those of them that are plugged in."""
        with translate_errors("plugging CPUs in"):
            self._domain().setVcpusFlags(count, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def request_memory(self, size: int) -> None:
        """Have the guest take so many bytes beside those that it started with; it gives back what it has above them.

        Raises:
            WrongState: when the domain has no room for any.
        """
        with translate_errors("changing the guest's memory"):
            domain = self._domain()
            text = memory_device_with(ElementTree.fromstring(domain.XMLDesc()), size)
            if text is None:
                raise WrongState("the domain has no device for more memory")
            domain.updateDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def undefine(self) -> None:
        """Forget the domain and all that libvirt kept for it."""
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
        )
        with translate_errors("undefining the domain"):
            self._domain().undefineFlags(flags)

    def ask_agent(self, command: str, seconds: int, arguments: Mapping[str, Any] | None = None) -> str:
        """What the guest's agent says to a command, as JSON text: hostile until it has been read.

        Raises:
            Unanswered: when it does not answer in time.
            Unreadable: when there is no end to its answer, or no sense in it.
            LibvirtFailed: when it refuses.
        """
        # A library of its own, for these questions.
        import libvirt_qemu  # type: ignore[import-untyped]  # as `libvirt` itself

        doing = "asking the guest agent"
        question = json.dumps({"execute": command, **({"arguments": dict(arguments)} if arguments else {})})
        try:
            with translate_errors(doing):
                return str(libvirt_qemu.qemuAgentCommand(self._domain(), question, seconds, 0))
        except UnicodeDecodeError as error:
            raise Unreadable("is no UTF-8") from error
        except LibvirtFailed as error:
            if error.code == libvirt.VIR_ERR_SYSTEM_ERROR:
                # libvirt reads ten megabytes of it, and then speaks of a result out of range.
                raise Unreadable("cannot be read") from error
            raise

    def freeze(self, seconds: int) -> int:
        """Have the agent freeze the guest's file systems; how many. After an error they may be frozen all the same."""
        with translate_errors("freezing the guest's file systems"):
            domain = self._domain()
            domain.agentSetResponseTimeout(seconds)
            return int(domain.fsFreeze())

    def thaw(self, seconds: int) -> int:
        """Have the agent thaw them; how many."""
        with translate_errors("thawing the guest's file systems"):
            domain = self._domain()
            domain.agentSetResponseTimeout(seconds)
            return int(domain.fsThaw())

    def dump_memory(self, path: str) -> None:
        """Write the guest's memory into a file, as an ELF core; the guest waits meanwhile. Returns once it is written.

        Raises:
            LauncherError: when it is not; the guest goes on all the same, unless libvirt could not let it.
        """
        with translate_errors("writing the guest's memory"):
            self._domain().coreDumpWithFormat(
                path, libvirt.VIR_DOMAIN_CORE_DUMP_FORMAT_RAW, libvirt.VIR_DUMP_MEMORY_ONLY
            )

    def read_variables(self, below: str) -> tuple[str, bytes] | None:
        """The file of UEFI's variables and all that the guest has in them; the guest must not run meanwhile.

        None when it has none in a file whose path begins with `below`, or QEMU does not show them.

        Raises:
            LauncherError: when QEMU does not answer.
            OSError: for the files.
        """
        with translate_errors("reading the variables of UEFI"):
            domain = self._domain()
            place = find_flash(domain.XMLDesc())
            if place is None or not place.path.startswith(below):
                return None
            read = read_flash(domain, place)
        return None if read is None else (place.path, read)

    def move_pointer(self) -> None:
        """Nudge the guest's mouse, by one step there and back; a guest without one does not mind.

        Raises:
            LauncherError: when QEMU does not answer.
        """
        import libvirt_qemu

        there_and_back = [{"type": "rel", "data": {"axis": "x", "value": step}} for step in (1, -1)]
        command = {"execute": "input-send-event", "arguments": {"events": there_and_back}}
        with translate_errors("moving the pointer"):
            libvirt_qemu.qemuMonitorCommand(self._domain(), json.dumps(command), 0)

    def disk_sizes(self, names: frozenset[str]) -> dict[str, DiskSize]:
        """The disks of these names in the running domain, with their sizes as QEMU has them; none when none runs."""
        try:
            domain = self._domain()
        except DomainMissing:
            return {}
        with translate_errors("reading the sizes of disks"):
            return read_sizes(domain, names)

    def resize_disk(self, target: str, size: int) -> None:
        """Let a disk of the running domain have so many bytes; the image grows as well."""
        with translate_errors(f"growing disk {target}"):
            self._domain().blockResize(target, size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)

    def screenshot(self) -> Iterator[bytes]:
        """The guest's first screen, as PNG or PPM, in pieces.

        Raises:
            WrongState: when it has none; LauncherError otherwise.
        """
        with translate_errors("taking a picture of the screen"):
            stream = self._connection.newStream(0)
            self._domain().screenshot(stream, 0)
        ended = False
        try:
            while not ended:
                with translate_errors("reading the picture"):
                    piece = stream.recv(_PIECE)
                ended = not piece
                if piece:
                    yield bytes(piece)
            with translate_errors("reading the picture"):
                stream.finish()
        finally:
            if not ended:
                with contextlib.suppress(libvirt.libvirtError):
                    stream.abort()

    def host_documents(self, *, emulation: bool) -> HostDocuments:
        """What libvirt tells of this host, for guests with or without KVM.

        Raises:
            LauncherError: when QEMU is missing, or does not run.
        """
        with translate_errors("asking for what QEMU can do"):
            return read_host_documents(self._connection, emulation=emulation)

    def _domain(self) -> Any:
        # Listing instead of looking up by name: libvirt logs each look-up that finds nothing as an error.
        with translate_errors("looking for the domain"):
            for domain in self._connection.listAllDomains():
                if domain.name() == self._name:
                    return domain
        raise DomainMissing("there is no guest yet")

    def _pid(self) -> int:
        try:
            with open(self._pid_path) as file:
                return int(file.read(16))
        except (FileNotFoundError, ValueError):
            return 0
