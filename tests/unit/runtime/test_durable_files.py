"""Files that must be there after a power cut: written, synced, renamed, and the directory synced, in this order.

A power cut itself cannot be had here; what the kernel is asked for, and in which order, can be seen.
"""

from __future__ import annotations

import ast
import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import kvedge
from kvedge.appliance.install.install_steps import replace_file
from kvedge.kube.kubeconfigs import kubeconfig_writer
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Pod
from kvedge.runtime import durable_files
from kvedge.runtime.durable_files import (
    find_unfinished,
    name_unfinished,
    put_durably,
    put_new_durably,
    write_durably,
    write_whole,
)
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.pod_record import new_record, write_pod_record
from kvedge.standalone.apiserver.access.kubeconfig import write_kubeconfig
from kvedge.standalone.apiserver.access.pki import Authority, Subject
from kvedge.standalone.apiserver.store.object_store import ObjectStore
from kvedge.standalone.box_lock import BoxLock
from kvedge.standalone.box_node import NodeName
from kvedge.storage.images import image_records
from kvedge.storage.images.image_records import NameRecord, Origin

# A rename that a power cut may undo, by file, and why.
UNSYNCED = {
    "kvedge/storage/volumes/device_links.py": "a link to a device, which is compared and made again",
    "kvedge/appliance/install/unpacked_trees.py": "a tree that is removed: the next start removes it again",
    "kvedge/appliance/host/launcher_link.py": "a link, which each start compares and makes again",
    "kvedge/appliance/report/report_file.py": "a report for a human who waits for it",
    "kvedge/handler/node/device_nodes.py": "a device node, which is compared and made again",
    "kvedge/handler/node/reservation_helper.py": "a socket, which is of no use without the process that made it",
    "kvedge/handler/node/launcher_tools.py": "compared and written anew at each start",
    "kvedge/handler/node/capability_seed.py": "a cache, which is probed again when it is torn or gone",
    "kvedge/handler/volumes/volume_hand_over.py": "of a launcher's mount namespace, which a power cut ends",
    "kvedge/client/vm_files/image_export.py": "a directory, of which each file was synced before",
    "kvedge/launcher/copies/backup_images.py": "in a claim, whose directories it syncs; the file was synced before",
    "kvedge/launcher/disks/tpm_directories.py": "in a claim, whose directory it syncs; the file was synced before",
    "kvedge/handler/volumes/memory_dump_files.py": "in a claim, whose directory it syncs; the file was synced before",
    "kvedge/handler/guest/last_word.py": "of a Pod's last boot: what a power cut ended counts as lost anyhow",
    "kvedge/handler/guest/tap_nodes.py": "a node in a launcher's /dev, which a power cut ends",
    "kvedge/launcher/cloudinit/iso.py": "made anew at each start of a guest",
    "kvedge/launcher/libvirt/libvirt_setup.py": "made anew at each start of a launcher",
    "kvedge/launcher/log_files.py": "a log that is turned",
    "kvedge/standalone/apiserver/audit_log.py": "a log that is turned",
    "kvedge/launcher/monitor.py": "of a Pod's last boot",
    "kvedge/launcher/disks/device_holder.py": "a question of this boot",
    "kvedge/launcher/shares/share_marks.py": "of a Pod, which is gone after a power cut",
    "kvedge/launcher/shares/share_server.py": "a socket of a Pod",
    "kvedge/launcher/metrics/metrics_image.py": "of a launcher's run, and written anew every few seconds",
    "kvedge/launcher/disks/qemu_img_client.py": "an empty overlay, which is made again",
    "kvedge/launcher/launcher_files.py": "of a launcher's run, which a power cut ends",
    "kvedge/launcher/migration/migration_record.py": "of a launcher's run, which a power cut ends with its guest",
    "kvedge/standalone/agent/container/atomic_files.py": "volumes, which are written anew from the API's objects",
    "kvedge/standalone/agent/pod/log_keeper.py": "a log that is turned",
    "kvedge/standalone/agent/container/container_starter.py": "a process of this boot",
    "kvedge/standalone/agent/pod/place/pod_volumes.py": "a volume that is removed, or made anew",
}
# What `write_whole` writes without being asked to be durable, by file, and why a power cut may take it.
NOT_DURABLE = {
    "kvedge/handler/fencing/promise_record.py": "of this boot; one that is damaged counts as lost, and the lease tells",
    "kvedge/handler/node/kvm_check.py": "a cache of this boot",
    "kvedge/handler/node/launcher_tools.py": "compared and written anew at each start",
    "kvedge/handler/usage/usage_files.py": "a torn one is found by its checksum: graphs begin anew",
    "kvedge/standalone/agent/container/container_state.py": "of a container, which a power cut ends",
    "kvedge/standalone/agent/container/probe_questions.py": "of a process of this boot",
    "kvedge/standalone/agent/pod/place/pod_place.py": "made anew from the Pod's object",
    "kvedge/storage/images/launcher_image.py": "an archive that each start makes",
}
# These sync the directory themselves, after several renames.
SYNC_THEMSELVES = {
    # Works in an open directory, which it syncs.
    "kvedge/storage/arriving_mark.py",
    # Exchanges directories, and takes the archive that they came from away once that is on the medium.
    "kvedge/launcher/disks/state_return.py",
    # Must not take a file that somebody else has taken, and syncs the claim's directory after it.
    "kvedge/launcher/run/memory_resume.py",
    "kvedge/runtime/damaged_files.py",
    "kvedge/runtime/durable_files.py",
    "kvedge/appliance/bundle/bundle_reader.py",
    "kvedge/appliance/install/install_steps.py",
    "kvedge/standalone/apiserver/store/object_store_mend.py",
    "kvedge/standalone/box_state/state_restore.py",
    # Puts damaged files aside; what it writes is written durably.
    "kvedge/storage/images/image_records.py",
    "kvedge/storage/images/image_store.py",
    # Also renames links in /dev, which a power cut takes anyway.
    "kvedge/storage/volumes/directory_driver.py",
    # Syncs the claim's directory after each word beside an image.
    "kvedge/launcher/disks/arriving_disk.py",
    # Have the claim's directory synced after each name, as it is a descriptor and no path.
    "kvedge/storage/backups/live/block_map.py",
    "kvedge/storage/backups/live/live_disk.py",
    # Syncs the claim as a whole.
    "kvedge/storage/imports/sinks/archive_sink.py",
    "kvedge/storage/imports/sinks/import_target.py",
}


class Calls:
    """What the kernel was asked for: ("fsync", path) and ("rename", new path)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, Path]] = []
        fsync = os.fsync

        def synced(descriptor: int) -> None:
            self.made.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", synced)
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._renaming(getattr(os, name)))

    def _renaming(self, rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: str | Path, target: str | Path) -> None:
            self.made += [("from", Path(source)), ("rename", Path(target))]
            rename(source, target)

        return renamed

    def check(self, path: Path) -> None:
        """The file was synced under its first name, then renamed, then its directory was synced."""
        at = self.made.index(("rename", path))
        staged = self.made[at - 1][1]
        assert ("fsync", staged) in self.made[:at], self.made
        assert ("fsync", path.parent) in self.made[at:], self.made


def _store_copy(folder: Path) -> Path:
    store = ObjectStore(folder / "store" / "kvedge.db")
    store.open()
    store.copy_to(folder / "copy.db")
    store.stop()
    with closing(sqlite3.connect(folder / "copy.db")) as copy:
        copy.execute("SELECT value FROM counters").fetchone()
    return folder / "copy.db"


def _pod_record(folder: Path) -> Path:
    uid = "7d5b2f0e-2b2f-4a0e-9a55-0123456789ab"
    files = PodFiles(folder / uid)
    write_pod_record(files, new_record(Pod(metadata=ObjectMeta(name="p", namespace="n", uid=uid))))
    return files.record


def _node_name(folder: Path) -> Path:
    NodeName(folder, "box", "").start()
    return folder / "node-name"


def _layout(folder: Path) -> Path:
    lock = BoxLock(folder)
    lock.start()
    lock.stop()
    return folder / "state" / "layout"


def _kubeconfig(folder: Path) -> Path:
    write_kubeconfig(folder / "config", "https://x", b"", Authority(folder, "client-ca"), Subject("ann"))
    return folder / "config"


def _authority(folder: Path) -> Path:
    Authority(folder, "client-ca")
    return folder / "client-ca.key"


def _user_secret(folder: Path) -> Path:
    kubeconfig_writer.write_kubeconfig(folder / "ann.kubeconfig", {"kind": "Config"})
    return folder / "ann.kubeconfig"


def _installed_file(folder: Path) -> Path:
    replace_file(folder / "unit", 0o644, lambda staged: staged.write_bytes(b"x"))
    return folder / "unit"


def _image_name(folder: Path) -> Path:
    record = NameRecord(name="a:1", image="x", origin=next(iter(Origin)), created="", digest="")
    image_records.write_record(record, folder / "name.json")
    return folder / "name.json"


@pytest.mark.parametrize(
    "write",
    [
        _store_copy,
        _pod_record,
        _node_name,
        _layout,
        _kubeconfig,
        _authority,
        _user_secret,
        _installed_file,
        _image_name,
    ],
    ids=lambda write: write.__name__.strip("_").replace("_", " "),
)
def test_what_must_survive_a_power_cut_is_synced_with_its_name(
    write: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    calls.check(write(tmp_path))


def test_a_new_pods_directory_is_synced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch)
    record = _pod_record(tmp_path)
    assert calls.made[-1] == ("fsync", record.parent.parent)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_of_two_writers_at_once_the_later_one_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fsync, others = tmp_path / "file", os.fsync, [b"another's"]

    def synced(descriptor: int) -> None:
        if others:
            write_durably(path, others.pop())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    write_durably(path, b"mine")
    assert path.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("left", [".file.unfinished", ".file.4194999-ab12.unfinished"])
def test_what_a_killed_writer_left_is_removed(left: str, tmp_path: Path) -> None:
    (tmp_path / left).write_bytes(b"half")
    write_durably(tmp_path / "file", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_is_put_in_place_as_it_is(tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    staged.write_bytes(b"x")
    staged.chmod(0o640)
    put_durably(staged, tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert not staged.exists()


def _renames(tree: ast.AST) -> bool:
    """Whether a module renames files by itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, of = node.func.attr, node.func.value
        if ast.unparse(of).endswith("client"):
            # An API's objects.
            continue
        of_module = isinstance(of, ast.Name) and of.id in ("os", "shutil")
        if of_module and name in ("rename", "renames", "replace", "move"):
            return True
        # `Path.rename` and `Path.replace` take one argument, `str.replace` two and `datetime.replace` named ones.
        if not of_module and name in ("rename", "replace") and len(node.args) == 1 and not node.keywords:
            return True
    return False


def test_every_rename_is_synced_or_has_a_reason_not_to_be() -> None:
    top = Path(kvedge.__file__).parent.parent
    found = {
        str(path.relative_to(top))
        for path in (top / "kvedge").rglob("*.py")
        if "rename" in (text := path.read_text()) or "replace(" in text or "move(" in text
        if _renames(ast.parse(text))
    }
    unknown = sorted(found - set(UNSYNCED) - SYNC_THEMSELVES)
    assert not unknown, f"use kvedge.runtime.durable_files there, or say here why not: {unknown}"
    assert not sorted((set(UNSYNCED) | SYNC_THEMSELVES) - found), "these rename nothing any more"


def _writes_whole(tree: ast.AST) -> bool:
    """Whether a module writes a file that a power cut may take."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "write_whole"]
    return any(not any(keyword.arg == "durable" for keyword in call.keywords) for call in calls)


def test_every_file_that_a_power_cut_may_take_has_a_reason() -> None:
    top = Path(kvedge.__file__).parent.parent
    files = [path for path in (top / "kvedge").rglob("*.py") if "write_whole(" in path.read_text()]
    found = {str(path.relative_to(top)) for path in files if _writes_whole(ast.parse(path.read_text()))}
    assert found == set(NOT_DURABLE)


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_whole_for_each_reader_and_synced_only_where_asked_for(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls = tmp_path / "file", Calls(monkeypatch)
    path.write_bytes(b"old")
    write_whole(path, b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    assert ("rename", path) in calls.made
    assert any(what == "fsync" for what, _ in calls.made) is durable


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without"])
def test_a_new_file_takes_nobodys_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(durable_files.os, "link", refuse)
    staged, path = tmp_path / "staged", tmp_path / "file"
    staged.write_text("first")
    put_new_durably(staged, path)
    assert (path.read_text(), staged.exists()) == ("first", False)
    staged.write_text("second")
    with pytest.raises(FileExistsError):
        put_new_durably(staged, path)
    assert (path.read_text(), staged.read_text()) == ("first", "second")
    # A link that leads nowhere is a name, too.
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        put_new_durably(staged, path)


def test_what_killed_writers_left_is_found_and_what_others_write_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    ours = name_unfinished(path)
    left = [tmp_path / ".file.4194304000-0a.unfinished", tmp_path / ".file.old.unfinished"]
    for each in (ours, *left, tmp_path / ".other.4194304000-0a.unfinished"):
        each.touch()
    assert sorted(find_unfinished(path)) == sorted(left)
