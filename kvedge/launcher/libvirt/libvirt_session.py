"""The launcher's libvirt: the embedded QEMU driver, and the one domain that it has.

One of the two doors to libvirt; used by the parts of `run` and `agent`. Everything that leaves is of kvedge's own
types, every libvirtError becomes one of `launcher_errors`. Calls may come from any thread: libvirt locks the domain
itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import libvirt

from kvedge.launcher.launcher_errors import (
    BadRequest,
    DiskFull,
    DomainMissing,
    LauncherError,
    LibvirtFailed,
    Unanswered,
    Unreadable,
    WrongState,
)
from kvedge.launcher.libvirt.domain_facts import ENDED, DiskSize, DomainDisk, DomainFacts, Life, Why
from kvedge.launcher.libvirt.domain_nics import nic_with_link, read_nics
from kvedge.launcher.libvirt.libvirt_events import start_event_loop, watch_events
from kvedge.launcher.libvirt.node_capabilities import HostDocuments

# Of libvirt's words, which go into messages and logs.
_LONGEST_DETAIL: Final = 1024
# What libvirt keeps aliases of its users apart by.
_ALIAS: Final = "ua-"
# Of a picture, read at once; libvirt hands out no more than 256 KiB.
_PIECE: Final = 64 << 10

_LIVES: Final = {
    libvirt.VIR_DOMAIN_RUNNING: Life.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: Life.BLOCKED,
    libvirt.VIR_DOMAIN_PAUSED: Life.PAUSED,
    libvirt.VIR_DOMAIN_SHUTDOWN: Life.SHUTTING_DOWN,
    libvirt.VIR_DOMAIN_SHUTOFF: Life.SHUTOFF,
    libvirt.VIR_DOMAIN_CRASHED: Life.CRASHED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: Life.SUSPENDED,
}

_WHYS: Final = {
    (Life.RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED): Why.BOOTED,
    (Life.RUNNING, libvirt.VIR_DOMAIN_RUNNING_UNPAUSED): Why.UNPAUSED,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER): Why.USER,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR): Why.IO_ERROR,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP): Why.STARTING_UP,
    (Life.PAUSED, libvirt.VIR_DOMAIN_PAUSED_CRASHED): Why.PANICKED,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN): Why.SHUTDOWN,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED): Why.DESTROYED,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED): Why.CRASHED,
    (Life.SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FAILED): Why.FAILED,
    (Life.CRASHED, libvirt.VIR_DOMAIN_CRASHED_PANICKED): Why.PANICKED,
}

_MISSING: Final = {libvirt.VIR_ERR_NO_DOMAIN}
_WRONG_STATE: Final = {libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_OPERATION_DENIED}
# The agent took its time, said by libvirt from 11.2 on; the name is missing where an older one was built against.
_AGENT_COMMAND_TIMEOUT: Final = 112
_UNANSWERED: Final = {
    _AGENT_COMMAND_TIMEOUT,
    libvirt.VIR_ERR_OPERATION_TIMEOUT,
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
    libvirt.VIR_ERR_AGENT_UNSYNCED,
    libvirt.VIR_ERR_NO_CONNECT,
}
# Said of the domain's document itself: no second try can help.
_REFUSED: Final = {
    libvirt.VIR_ERR_XML_ERROR,
    libvirt.VIR_ERR_XML_DETAIL,
    libvirt.VIR_ERR_XML_INVALID_SCHEMA,
    libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
    libvirt.VIR_ERR_NO_SUPPORT,
    libvirt.VIR_ERR_OS_TYPE,
}


@contextlib.contextmanager
def _translate_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except libvirt.libvirtError as error:
        raise _launcher_error(doing, error) from error


def _launcher_error(doing: str, error: Any) -> LauncherError:
    # It may quote the guest's agent, or QEMU.
    code, detail = error.get_error_code(), _cut(error.get_error_message() or str(error))
    if code in _MISSING:
        return DomainMissing(detail)
    if code in _WRONG_STATE:
        return WrongState(f"{doing}: {detail}")
    if code in _UNANSWERED:
        return Unanswered(f"{doing}: {detail}")
    if code in _REFUSED:
        return BadRequest("spec.domain", f"libvirt refuses it: {detail}")
    if code == libvirt.VIR_ERR_SYSTEM_ERROR and error.get_int1() == errno.ENOSPC:
        return DiskFull("the domain", detail)
    return LibvirtFailed(doing, code, error.get_error_domain(), detail)


def _cut(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:_LONGEST_DETAIL])


class LibvirtSession:
    """One open embedded driver, for one domain name."""

    def __init__(self, root: str, domain_name: str) -> None:
        """Open the driver at `root`; what runs there already is found again.

        Raises:
            LauncherError: when it cannot be opened.
        """
        self._name = domain_name
        self._pid_path = f"{root}/run/qemu/{domain_name}.pid"
        # Errors are raised; libvirt's habit of also printing each of them only fills the log.
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        start_event_loop()
        with _translate_errors("opening libvirt"):
            self._connection = libvirt.open(f"qemu:///embed?root={root}")

    @property
    def libvirt_version(self) -> int:
        """As libvirt writes it: major * 1,000,000 + minor * 1,000 + release."""
        return int(libvirt.getVersion())

    def watch(self, on_event: Callable[[], None]) -> None:
        """Call `on_event()` in libvirt's thread whenever the domain may have changed."""
        with _translate_errors("watching events"):
            watch_events(self._connection, on_event)

    def facts(self) -> DomainFacts | None:
        """What the domain is like now; None when none is defined."""
        try:
            domain = self._domain()
        except DomainMissing:
            return None
        with _translate_errors("reading the domain"):
            state, reason = domain.state()
            document = ElementTree.fromstring(domain.XMLDesc())
        life = _LIVES.get(state, Life.UNKNOWN)
        machine = document.find("os/type")
        channel = document.find("devices/channel/target[@name='org.qemu.guest_agent.0']")
        return DomainFacts(
            uuid=domain.UUIDString(),
            life=life,
            why=_WHYS.get((life, reason), Why.OTHER),
            pid=self._pid() if life not in ENDED else 0,
            machine="" if machine is None else machine.get("machine", ""),
            disks=tuple(_disks(document)),
            nics=tuple(read_nics(document, _ALIAS)),
            io_threads=int(document.findtext("iothreads") or 0),
            agent_connected=channel is not None and channel.get("state") == "connected",
        )

    def define(self, xml: str) -> None:
        """Define the domain; raises BadRequest when libvirt finds fault with the document."""
        with _translate_errors("defining the domain"):
            self._connection.defineXML(xml)

    def start(self, *, paused: bool) -> None:
        """Start the defined domain."""
        flags = libvirt.VIR_DOMAIN_START_PAUSED if paused else 0
        with _translate_errors("starting the domain"):
            self._domain().createWithFlags(flags)

    def pause(self) -> None:
        """Stop the guest's CPUs."""
        with _translate_errors("pausing"):
            self._domain().suspend()

    def unpause(self) -> None:
        """Let the guest's CPUs run."""
        with _translate_errors("unpausing"):
            self._domain().resume()

    def reset(self) -> None:
        """As the reset button does."""
        with _translate_errors("resetting"):
            self._domain().reset(0)

    def soft_reboot(self, *, agent: bool) -> None:
        """Ask the guest to reboot, by its agent (which may take a minute) or by ACPI."""
        flags = libvirt.VIR_DOMAIN_REBOOT_GUEST_AGENT if agent else libvirt.VIR_DOMAIN_REBOOT_ACPI_POWER_BTN
        with _translate_errors("rebooting"):
            self._domain().reboot(flags)

    def shut_down(self, *, agent: bool) -> None:
        """Ask the guest to power off, by its agent (which may take a minute) or by the ACPI power button."""
        flags = libvirt.VIR_DOMAIN_SHUTDOWN_GUEST_AGENT if agent else libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
        with _translate_errors("shutting down"):
            self._domain().shutdownFlags(flags)

    def destroy(self, *, graceful: bool) -> None:
        """End QEMU: SIGTERM, which lets it write out its caches; unless graceful, also SIGKILL.

        Raises:
            Unanswered: when a graceful end took too long.
        """
        flags = libvirt.VIR_DOMAIN_DESTROY_GRACEFUL if graceful else 0
        try:
            with _translate_errors("ending QEMU"):
                self._domain().destroyFlags(flags)
        except LibvirtFailed as error:
            # This is how libvirt says that SIGTERM was not enough.
            raise Unanswered(str(error)) from error

    def attach_device(self, xml: str) -> None:
        """Plug a disk or a NIC into the running domain.

        The live domain only, as with all changes of devices: the defined one is never started a second time.
        """
        with _translate_errors("attaching the device"):
            self._domain().attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def detach_device(self, name: str) -> None:
        """Ask the guest to release what the VMI calls so; an event tells when it has, nothing waits for it."""
        with _translate_errors("detaching the device"):
            self._domain().detachDeviceAlias(_ALIAS + name, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def change_medium(self, name: str, path: str, *, block: bool) -> None:
        """Put what is at `path` into a CD-ROM drive, "" to empty it; without force, so that a locked tray refuses."""
        with _translate_errors("changing the medium"):
            domain = self._domain()
            drive = _drive(ElementTree.fromstring(domain.XMLDesc()), name, path, block=block)
            text = ElementTree.tostring(drive, encoding="unicode")
            domain.updateDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def set_link(self, name: str, *, down: bool) -> None:
        """Give a NIC its carrier, or take it away.

        Raises:
            WrongState: when the domain has no such NIC.
        """
        with _translate_errors("changing the NIC's link"):
            domain = self._domain()
            text = nic_with_link(ElementTree.fromstring(domain.XMLDesc()), _ALIAS + name, down=down)
            if text is None:
                raise WrongState(f"the domain has no NIC {name}")
            domain.updateDeviceFlags(text, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def add_io_thread(self, number: int) -> None:
        """Start an IO thread, which a disk that comes is to have."""
        with _translate_errors("adding an IO thread"):
            self._domain().addIOThread(number, libvirt.VIR_DOMAIN_AFFECT_LIVE)

    def undefine(self) -> None:
        """Forget the domain and all that libvirt kept for it."""
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
        )
        with _translate_errors("undefining the domain"):
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
            with _translate_errors(doing):
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
        with _translate_errors("freezing the guest's file systems"):
            domain = self._domain()
            domain.agentSetResponseTimeout(seconds)
            return int(domain.fsFreeze())

    def thaw(self, seconds: int) -> int:
        """Have the agent thaw them; how many."""
        with _translate_errors("thawing the guest's file systems"):
            domain = self._domain()
            domain.agentSetResponseTimeout(seconds)
            return int(domain.fsThaw())

    def move_pointer(self) -> None:
        """Nudge the guest's mouse, by one step there and back; a guest without one does not mind.

        Raises:
            LauncherError: when QEMU does not answer.
        """
        import libvirt_qemu

        there_and_back = [{"type": "rel", "data": {"axis": "x", "value": step}} for step in (1, -1)]
        command = {"execute": "input-send-event", "arguments": {"events": there_and_back}}
        with _translate_errors("moving the pointer"):
            libvirt_qemu.qemuMonitorCommand(self._domain(), json.dumps(command), 0)

    def disk_sizes(self, names: frozenset[str]) -> dict[str, DiskSize]:
        """The disks of these names in the running domain, with their sizes as QEMU has them; none when none runs."""
        try:
            domain = self._domain()
        except DomainMissing:
            return {}
        found = {}
        with _translate_errors("reading the sizes of disks"):
            if not domain.isActive():
                return {}
            for disk in _disks(ElementTree.fromstring(domain.XMLDesc())):
                if disk.source and disk.name in names:
                    size = int(domain.blockInfo(disk.target)[0])
                    found[disk.name] = DiskSize(disk.target, size, _device_bytes(disk.source))
        return found

    def resize_disk(self, target: str, size: int) -> None:
        """Let a disk of the running domain have so many bytes; the image grows as well."""
        with _translate_errors(f"growing disk {target}"):
            self._domain().blockResize(target, size, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)

    def screenshot(self) -> Iterator[bytes]:
        """The guest's first screen, as PNG or PPM, in pieces.

        Raises:
            WrongState: when it has none; LauncherError otherwise.
        """
        with _translate_errors("taking a picture of the screen"):
            stream = self._connection.newStream(0)
            self._domain().screenshot(stream, 0)
        ended = False
        try:
            while not ended:
                with _translate_errors("reading the picture"):
                    piece = stream.recv(_PIECE)
                ended = not piece
                if piece:
                    yield bytes(piece)
            with _translate_errors("reading the picture"):
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
        machine = os.uname().machine
        kind = ("qemu" if emulation else "kvm", "q35" if machine == "x86_64" else "virt")
        with _translate_errors("asking for what QEMU can do"):
            domain = self._connection.getDomainCapabilities(None, machine, kind[1], kind[0])
            capabilities = self._connection.getCapabilities()
            versions = (libvirt.getVersion(), self._connection.getVersion())
        return HostDocuments(
            domain_capabilities=domain,
            capabilities=capabilities,
            host_model=self._expanded_host_model(domain, machine, *kind),
            libvirt=versions[0],
            qemu=versions[1],
        )

    def _expanded_host_model(self, domain_capabilities: str, machine: str, virt_type: str, chipset: str) -> str:
        mode = ElementTree.fromstring(domain_capabilities).find("cpu/mode[@name='host-model'][@supported='yes']")
        if mode is None:
            return ""
        cpu = ElementTree.Element("cpu", mode="custom", match="exact")
        cpu.extend(mode)
        flags = libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
        try:
            text = ElementTree.tostring(cpu, encoding="unicode")
            return str(self._connection.baselineHypervisorCPU(None, machine, chipset, virt_type, [text], flags))
        except libvirt.libvirtError:
            # Not every architecture has models; what the short document names is then all there is to say.
            return ""

    def _domain(self) -> Any:
        # Listing instead of looking up by name: libvirt logs each look-up that finds nothing as an error.
        with _translate_errors("looking for the domain"):
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


def _device_bytes(path: str) -> int:
    """The size of a block device; 0 when there is none, or none that can be opened."""
    if not path:
        return 0
    try:
        device = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return os.lseek(device, 0, os.SEEK_END) if stat.S_ISBLK(os.fstat(device).st_mode) else 0
    finally:
        os.close(device)


def _disks(document: ElementTree.Element) -> Iterator[DomainDisk]:
    for disk in document.iterfind("devices/disk"):
        alias, target, source = disk.find("alias"), disk.find("target"), disk.find("source")
        if target is not None:
            name = "" if alias is None else alias.get("name", "").removeprefix(_ALIAS)
            path = "" if source is None else source.get("file") or source.get("dev") or ""
            yield DomainDisk(name, target.get("dev", ""), disk.get("device", "disk"), path)


def _drive(document: ElementTree.Element, name: str, path: str, *, block: bool) -> ElementTree.Element:
    """The CD-ROM drive as it is, with another medium.

    Raises:
        WrongState: when there is no such drive.
    """
    found = document.find(f"devices/disk[@device='cdrom']/alias[@name='{_ALIAS}{name}']/..")
    if found is None:
        raise WrongState(f"the domain has no CD-ROM drive {name}")
    for child in [child for child in found if child.tag in {"source", "backingStore"}]:
        found.remove(child)
    target = found.find("target")
    if target is not None:
        # How the tray is now is the guest's affair.
        target.attrib.pop("tray", None)
    found.set("type", "block" if block else "file")
    if path:
        # Nothing that the medium itself may name lies below it.
        found.insert(1, ElementTree.Element("source", {"dev" if block else "file": path}))
        found.insert(2, ElementTree.Element("backingStore"))
    return found
