"""Runs in a guest whose kernel has device-mapper: the real driver on a real thin pool. Prints what it saw.

Started by tests/machine/volumes/test_thin_driver.py through tests/support/lvm_guest.py, as the guest's only program.
Each line that it prints is `SAW` with a name and JSON; whether that is right, the test says.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from kvedge.storage.volumes.lvm_programs import LvmPrograms
from kvedge.storage.volumes.lvm_report import VOLUME_COLUMNS, restrict_to
from kvedge.storage.volumes.thin_driver import ThinDriver
from kvedge.storage.volumes.thin_identity import ThinIdentity
from kvedge.storage.volumes.volume_driver import STAGED, NewVolume, VolumeDriverError, ignore_step

MIB = 1 << 20
DISK, FILES, CLONE, FILES_CLONE, LATE = (f"0f5c0000-0000-4000-8000-00000000000{number}" for number in range(1, 6))
KEPT, FILES_KEPT = f"snapshot-{DISK}", f"snapshot-{FILES}"
ODD, ODD_CLONE, ODD_FILES, ODD_FILES_CLONE = (f"0f5c0000-0000-4000-8000-00000000001{number}" for number in range(1, 5))
ODD_KEPT = f"snapshot-{ODD}"


class PowerCut(BaseException):
    """The driver ends here."""


def cut(step: str) -> None:
    if step == STAGED:
        raise PowerCut


def saw(name: str, what: object) -> None:
    print(f"SAW {name} {json.dumps(what)}", flush=True)


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except VolumeDriverError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def lvm(*words: str) -> str:
    return LvmPrograms().run(*words)


def driver(pool: str = "thin", stepped: Callable[[str], None] = ignore_step) -> ThinDriver:
    identity = ThinIdentity("ssd", pool, Path("/var/places/fast"))
    return ThinDriver(identity, Path("/dev/kvedge"), Path("/run/kvedge/volumes/fast"), stepped=stepped)


def write(path: Path, content: bytes) -> None:
    opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(opened, content)
    os.fsync(opened)
    os.close(opened)


def make_pool() -> None:
    lvm("vgcreate", "-y", "ssd", "/dev/vdb")
    lvm("lvcreate", "-y", "--type", "thin-pool", "-L", "200M", "--poolmetadatasize", "4M", "-n", "thin", "ssd")
    lvm("lvchange", "-y", "--errorwhenfull", "y", "ssd/thin")
    # Of somebody else, with the name that a volume of ours would have.
    lvm("lvcreate", "-y", "-T", "-V", "8M", "-n", f"kvedge-{LATE}", "ssd/thin")
    write(Path(f"/dev/ssd/kvedge-{LATE}"), b"theirs")


def qemu(driver_name: str, path: Path, *commands: str) -> bool:
    """Whether QEMU does this on a disk that it has as launchers give it: without a cache, and with trimming."""
    options = f"driver={driver_name},filename={path},cache.direct=on,discard=unmap"
    words = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(["qemu-io", "--image-opts", options, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-500:], done.stderr[-500:], flush=True)
    return done.returncode == 0


def try_qemu(ours: ThinDriver) -> None:
    """QEMU writes to both kinds of volumes, and finds on what is restored what was there at the snapshot."""
    ours.make(NewVolume(ODD, 8 * MIB, block=True))
    ours.make(NewVolume(ODD_FILES, 8 * MIB))
    device, image = ours.attach(ODD), ours.attach(ODD_FILES) / "disk.img"
    with image.open("wb") as opened:
        opened.truncate(8 * MIB)
    pairs = (("host_device", device), ("file", image))
    done = [qemu(kind, path, "write -P 0x61 1M 1M", "flush") for kind, path in pairs]
    for name in (ODD, ODD_FILES):
        ours.snapshot(name, f"snapshot-{name}", lambda: None, at_once=True)
    done += [qemu(kind, path, "write -P 0x62 1M 1M", "discard 4M 1M", "flush") for kind, path in pairs]
    ours.clone(ODD_KEPT, NewVolume(ODD_CLONE, 8 * MIB, block=True), lambda: None)
    ours.clone(f"snapshot-{ODD_FILES}", NewVolume(ODD_FILES_CLONE, 8 * MIB), lambda: None)
    back = (("host_device", ours.attach(ODD_CLONE)), ("file", ours.attach(ODD_FILES_CLONE) / "disk.img"))
    done += [qemu(kind, path, "read -P 0x61 1M 1M") for kind, path in back]
    done += [qemu(kind, path, "read -P 0x62 1M 1M") for kind, path in pairs]
    saw("qemu", done)
    for name in (ODD, ODD_FILES, ODD_KEPT, f"snapshot-{ODD_FILES}", ODD_CLONE, ODD_FILES_CLONE):
        ours.remove(name)


def compare_odd_sizes(ours: ThinDriver) -> None:
    """A device that is larger than asked, and what is made of it, are equal to their last byte."""
    ours.make(NewVolume(ODD, 9 * MIB, block=True))
    device = ours.attach(ODD)
    content = os.urandom(ours.usage(ODD).size)
    write(device, content)
    ours.snapshot(ODD, ODD_KEPT, lambda: None, at_once=True)
    facts = ours.snapshot_facts(ODD_KEPT)
    ours.clone(ODD_KEPT, NewVolume(ODD_CLONE, 9 * MIB, block=True), lambda: None)
    same = ours.attach(ODD_CLONE).read_bytes() == device.read_bytes() == content
    saw("odd", [len(content) // MIB, facts.size // MIB, ours.describe(ODD_CLONE)[0] // MIB, same])
    for name in (ODD, ODD_KEPT, ODD_CLONE):
        ours.remove(name)


def main() -> None:
    saw("nothing there", refusal(driver().prepare))
    make_pool()
    ours = driver()
    ours.prepare()
    lvm("lvchange", "-y", "--zero", "n", "ssd/thin")
    saw("not cleared", refusal(lambda: ours.make(NewVolume(DISK, 32 * MIB, block=True))))
    lvm("lvchange", "-y", "--zero", "y", "ssd/thin")
    ours.make(NewVolume(DISK, 32 * MIB, block=True))
    device = ours.attach(DISK)
    # A guest makes a volume group of its own on its disk.
    inside = f'devices{{scan_lvs=1 filter=["a|^{device.resolve()}$|","r|.*|"]}}'
    lvm("vgcreate", "-y", "--config", inside, "nested", str(device.resolve()))
    lvm("lvcreate", "-y", "-an", "-Zn", "-Wn", "--config", inside, "-l", "1", "-n", "inner", "nested")
    write(device, b"before")
    ours.make(NewVolume(FILES, 64 * MIB))
    folder = ours.attach(FILES)
    facts, room = folder.stat(), os.statvfs(folder)
    saw("folder", [str(folder), oct(facts.st_mode), facts.st_uid, facts.st_gid, room.f_bavail * room.f_frsize // MIB])
    write(folder / "disk.img", b"before")
    for name, kept in ((DISK, KEPT), (FILES, FILES_KEPT)):
        ours.snapshot(name, kept, lambda: None, at_once=True)
    write(device, b"after!")
    write(folder / "disk.img", b"after!")
    ours.clone(KEPT, NewVolume(CLONE, 48 * MIB, block=True), lambda: None)
    ours.clone(FILES_KEPT, NewVolume(FILES_CLONE, 96 * MIB), lambda: None)
    copied = ours.attach(CLONE)
    with copied.open("rb") as opened:
        saw("clone", [opened.read(6).decode(), opened.seek(0, os.SEEK_END) // MIB])
    copied = ours.attach(FILES_CLONE)
    room = os.statvfs(copied)
    saw("clone of files", [(copied / "disk.img").read_text(), room.f_bavail * room.f_frsize // MIB])
    ours.grow(FILES, 100 * MIB)
    room = os.statvfs(folder)
    saw("grown", [ours.usage(FILES).size // MIB, room.f_bavail * room.f_frsize // MIB])
    ours.write_note(f"pvc-{DISK}", b"whose")
    saw("foreign", refusal(lambda: ours.make(NewVolume(LATE, 8 * MIB, block=True))))
    try:
        driver(stepped=cut).make(NewVolume("cut-off", 8 * MIB, block=True))
    except PowerCut:
        saw("after the cut", "kvedge-new-cut-off" in lvm("lvs", "ssd"))
    report = ("--reportformat", "json", "--units", "b", "--nosuffix", "-a", "-o", VOLUME_COLUMNS)
    saw("report", json.loads(lvm("lvs", "--config", restrict_to(["/dev/vdb"]), *report, "ssd")))
    again = driver()
    again.prepare()
    saw("swept", "kvedge-new-cut-off" not in lvm("lvs", "ssd"))
    saw("adopted", [sorted(again.names()), [(name, text.decode()) for name, text, _ in again.notes()]])
    with (folder / "disk.img").open("rb"):
        saw("busy", refusal(lambda: again.remove(FILES)))
    for name in (DISK, FILES, KEPT, FILES_KEPT, FILES, DISK):
        again.remove(name)
    saw("left", [sorted(again.names()), folder.exists(), device.is_symlink()])
    compare_odd_sizes(again)
    try_qemu(again)
    full = again.attach(CLONE)
    again.grow(CLONE, 300 * MIB)
    wrote = subprocess.run(
        ["dd", "if=/dev/zero", f"of={full}", "bs=4M", "oflag=direct"], capture_output=True, check=False
    )
    space = again.space()
    saw("full", [wrote.returncode != 0 and b"No space" in wrote.stderr, space.free * 100 // space.total])
    saw("refused", refusal(lambda: again.make(NewVolume(DISK, 8 * MIB, block=True))))
    saw("refused to grow", refusal(lambda: again.grow(FILES_CLONE, 200 * MIB)))
    again.remove(CLONE)
    space = again.space()
    saw("room again", space.free * 100 // space.total)
    saw("groups", [[each.name, list(each.devices)] for each in LvmPrograms().groups()])
    saw("nested", [str(each) for each in Path("/dev/mapper").glob("nested*")])
    saw("theirs", Path(f"/dev/ssd/kvedge-{LATE}").read_bytes()[:6].decode())
    Path("/var/places/fast").write_text('{"place": "another/pool"}')
    saw("another", refusal(driver().prepare))


if __name__ == "__main__":
    main()
