"""A domain of libvirt (`virsh dumpxml VM`) with its disks on this computer, as a VM to be imported.

Called by `kvedge import`. Reads the document, and the images that it names: the user who imports names files of this
computer by it, so that only what this user may read is sent. What has no equal here is told, and refused only where
the guest would not boot.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

from kvedge.client.errors import RefusedError
from kvedge.client.uploads.upload_source import UploadSource
from kvedge.client.vm_files import safe_xml
from kvedge.client.vm_files.archive_errors import DamagedFile, UnknownFile
from kvedge.client.vm_files.disk_images import is_disk, is_in_use, is_written, needs_room, open_image
from kvedge.client.vm_files.foreign_vm import ForeignDisk, ForeignMachine, ForeignNic, clean_mac, manifest_of
from kvedge.client.vm_files.machine_file import MachineFile
from kvedge.client.vm_files.safe_xml import text_of

# libvirt's units of memory, in bytes.
_UNITS: Final = {
    "b": 1,
    "bytes": 1,
    "KB": 1000,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "": 1 << 10,
    "k": 1 << 10,
    "KiB": 1 << 10,
    "M": 1 << 20,
    "MiB": 1 << 20,
    "G": 1 << 30,
    "GiB": 1 << 30,
    "T": 1 << 40,
    "TiB": 1 << 40,
}
_KINDS: Final = ("kvm", "qemu", "hvf")
_BUSES: Final = {"virtio": "virtio", "sata": "sata", "scsi": "scsi", "usb": "usb", "ide": "sata"}
_MODELS: Final = ("virtio", "e1000", "e1000e", "rtl8139", "ne2k_pci", "pcnet", "igb")
_CPU_MODES: Final = {"host-passthrough": "host-passthrough", "maximum": "host-passthrough", "host-model": "host-model"}
# Devices that a VM has here as well, or that no guest misses.
_SILENT: Final = frozenset(
    {
        *("emulator", "disk", "interface", "controller", "serial", "console", "channel", "input", "graphics", "video"),
        *("memballoon", "rng", "audio", "sound", "tpm", "panic", "watchdog", "hub", "redirdev"),
    }
)


def is_domain(head: bytes) -> bool:
    """Whether a file that begins so may be a domain."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def read_domain(path: Path) -> MachineFile:
    """The VM of a domain.

    Raises:
        DamagedFile, UnknownFile: for what is no domain.
        RefusedError: when it would not boot here, or its guest runs.
        OSError: of a file.
    """
    if path.stat().st_size > safe_xml.LONGEST:
        raise DamagedFile(f"{path}: is too large for a domain of libvirt")
    root = safe_xml.parse(path.read_bytes(), str(path))
    if root.tag != "domain":
        raise UnknownFile(f"{path}: is no domain of libvirt: `virsh dumpxml --inactive VM` writes one")
    return _Domain(path, root).read()


class _Domain:
    """One document."""

    def __init__(self, path: Path, root: Element) -> None:
        self._path = path
        self._root = root
        self._machine = ForeignMachine(text_of(root, "name") or path.stem)
        self._sources: list[UploadSource] = []
        self._least: list[int] = []
        self._sent_from: list[str] = []

    def read(self) -> MachineFile:
        """All of it."""
        self._check_kind()
        machine = self._machine
        machine.uuid = text_of(self._root, "uuid")
        machine.memory = self._read_memory()
        self._read_cpus()
        self._read_firmware()
        devices = self._root.find("devices")
        for device in devices if devices is not None else ():
            if device.tag == "disk":
                self._read_disk(device)
            elif device.tag == "interface":
                self._read_nic(device)
            elif device.tag == "tpm":
                machine.has_tpm = True
                machine.warnings.append("its TPM begins empty: a guest that has sealed its keys there needs them anew")
            elif device.tag not in _SILENT:
                machine.warnings.append(f"its device <{device.tag[:40]}> has no equal here, and is left out")
        if not self._sources:
            raise RefusedError(f"{self._path}: has no disk that could be sent, and would not boot")
        if self._attribute("clock", "offset") == "localtime":
            machine.warnings.append(
                "its clock shows local time: name the zone in spec.template.spec.domain.clock.timezone"
            )
        manifest = manifest_of(machine, f"libvirt domain {text_of(self._root, 'name')}")
        return MachineFile(manifest, self._sources, self._least, machine.warnings, self._sent_from)

    def _check_kind(self) -> None:
        kind, system = self._root.get("type", ""), self._root.find("os/type")
        arch = system.get("arch", "") if system is not None else ""
        if kind not in _KINDS or (system is not None and (system.text or "").strip() != "hvm"):
            raise RefusedError(f"{self._path}: is of the kind {kind[:20]!r}; only KVM's and QEMU's would boot here")
        if arch and arch not in ("x86_64", "aarch64"):
            raise RefusedError(f"{self._path}: is of the architecture {arch[:20]}, which no node has")
        if arch and arch != platform.machine():
            self._machine.warnings.append(f"it is of the architecture {arch}: it starts on nodes of that one alone")
        if self._root.find("os/kernel") is not None:
            raise RefusedError(
                f"{self._path}: boots a kernel of its host, which is in no disk: install a loader in the guest first"
            )
        machine = system.get("machine", "") if system is not None else ""
        if arch != "aarch64" and machine and "q35" not in machine:
            self._machine.warnings.append(f"its machine type {machine[:40]} becomes q35: a guest may name NICs anew")

    def _read_memory(self) -> int:
        element = self._root.find("memory")
        text = (element.text or "").strip() if element is not None else ""
        unit = _UNITS.get(element.get("unit", "") if element is not None else "", 0)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and unit):
            raise DamagedFile(f"{self._path}: <memory> is no size")
        return int(text) * unit

    def _read_cpus(self) -> None:
        machine, text = self._machine, text_of(self._root, "vcpu")
        if not (text.isascii() and text.isdigit() and len(text) < 6):
            raise DamagedFile(f"{self._path}: <vcpu> is no number")
        machine.cpus = int(text)
        topology = self._root.find("cpu/topology")
        if topology is not None:
            values = [topology.get(key, "1") for key in ("sockets", "dies", "cores", "threads")]
            if all(value.isascii() and value.isdigit() and len(value) < 6 for value in values):
                sockets, dies, cores, threads = map(int, values)
                machine.topology = (sockets, dies * cores, threads)
        mode = self._attribute("cpu", "mode")
        machine.cpu_model = _CPU_MODES.get(mode, "")
        if mode == "custom":
            machine.cpu_model = text_of(self._root, "cpu/model")[:64]

    def _read_firmware(self) -> None:
        machine, loader = self._machine, self._root.find("os/loader")
        machine.is_efi = self._attribute("os", "firmware") == "efi" or (
            loader is not None and loader.get("type") == "pflash"
        )
        secure = [each for each in self._root.findall("os/firmware/feature") if each.get("name") == "secure-boot"]
        machine.is_secure = machine.is_efi and (
            (loader is not None and loader.get("secure") == "yes")
            or any(each.get("enabled") == "yes" for each in secure)
        )
        if self._root.find("os/nvram") is not None:
            machine.warnings.append("its EFI variables are left out: the guest boots by its fallback loader at first")

    def _read_disk(self, disk: Element) -> None:
        target, kind = disk.find("target"), disk.get("device", "disk")
        name = target.get("dev", "") if target is not None else ""
        source = disk.find("source")
        place = "" if source is None else source.get("file") or source.get("dev") or ""
        if kind != "disk":
            if place:
                self._machine.warnings.append(f"its {kind[:10]} {name[:20]} with {place[:200]} is left out")
            return
        if disk.get("type") not in ("file", "block") or not place:
            raise RefusedError(
                f"{self._path}: disk {name[:20]!r} lies on {disk.get('type', 'no file')[:20]}; copy it into a file: "
                "qemu-img convert -O qcow2 SOURCE FILE"
            )
        path = Path(place)
        if not path.is_absolute() or not is_disk(path):
            raise RefusedError(f"{self._path}: disk {name[:20]!r}: {place[:200]} is no disk of this computer")
        if disk.find("encryption") is not None or (source is not None and source.find("encryption") is not None):
            raise RefusedError(
                f"{self._path}: disk {name[:20]!r} is encrypted by libvirt's key, which no guest here has: decrypt it "
                "with qemu-img convert"
            )
        if is_in_use(path):
            raise RefusedError(f"{path}: is a device that this computer uses itself: unmount what is on it first")
        if is_written(path):
            raise RefusedError(f"{path}: is written by a guest that runs: shut it down with `virsh shutdown` first")
        driver = disk.find("driver")
        format_ = driver.get("type", "raw") if driver is not None else "raw"
        size, image = open_image(path, format_)
        # Whoever has made the document may have meant a file that is no disk of a guest.
        self._sent_from.append(f"disk {name[:20]} is sent from {path.resolve()}")
        bus = target.get("bus", "") if target is not None else ""
        boot = disk.find("boot")
        order = boot.get("order", "") if boot is not None else ""
        self._machine.add_disk(
            ForeignDisk(
                size,
                _BUSES.get(bus, "sata"),
                text_of(disk, "serial")[:36],
                int(order) if order.isascii() and order.isdigit() and len(order) < 4 else 0,
            )
        )
        self._sources.append(image)
        self._least.append(needs_room(image, size))

    def _read_nic(self, nic: Element) -> None:
        mac, model = nic.find("mac"), nic.find("model")
        kind = model.get("type", "") if model is not None else ""
        if nic.get("type") == "hostdev":
            self._machine.warnings.append("a NIC of its host that it had is left out")
            return
        address = clean_mac(mac.get("address", "")) if mac is not None else ""
        self._machine.nics.append(ForeignNic(kind if kind in _MODELS else "e1000e", address))

    def _attribute(self, path: str, name: str) -> str:
        element = self._root.find(path)
        return element.get(name, "") if element is not None else ""
