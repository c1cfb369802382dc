"""A checkout whose program dies by kill -9 at a named step of hotplug, once for each mark that a test sets.

The steps are lines of the program itself: a copy of the checkout gets a call before or after each of them. A process
that began after the mark was set has been started again, and goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_WORDS = '''"""Ends this process at the step that the mark names, if the mark is younger than the process."""
import os
import signal
import time

began = [time.time()]
os.register_at_fork(after_in_child=lambda: began.append(time.time()))


def step(name):
    path = os.path.join(os.path.dirname(__file__), "die-at")
    try:
        set_at = os.stat(path).st_mtime
        with open(path) as file:
            wanted = file.read()
    except OSError:
        return
    if wanted == name and set_at > began[-1]:
        os.kill(os.getpid(), signal.SIGKILL)
'''
_LOOP = "controller/vmi/hotplug/hotplug_loop.py"
_SYNC = "handler/guest/sync_loop.py"
_HAND_OVER = "handler/volumes/volume_hand_over.py"
_KEEPER = "launcher/hotplug/disk_keeper.py"


class Death(NamedTuple):
    """One step: the line of a file before or after which a process dies."""

    name: str
    file: str
    line: str
    after: bool = False

    @property
    def in_launcher(self) -> bool:
        """Whether it is the launcher that dies; else the whole box does."""
        return self.file.startswith("launcher/")


_PATCHED = "self._vmis.observe(self._client.patch(VirtualMachineInstance, meta.namespace, meta.name, patch))"
_MADE = "in_own_thread(partial(make_image, claim, info))"
_MOUNTED = "in_own_thread(partial(_mount_image, name, theirs, ours, copy))"
_MKNOD = "os.mknod(coming, stat.S_IFBLK | _UNGIVEN_MODE, facts.st_rdev, dir_fd=directory)"
_RENAMED = "os.rename(coming, name, src_dir_fd=directory, dst_dir_fd=directory)"
_TAKEN_BACK = '_take_back_device(name, (f"{_COMING}{name}", name), directory, launcher)'
_GOING = "os.rename(present, going, src_dir_fd=directory, dst_dir_fd=directory)"
_REPORTED = "written = self.client.patch(VirtualMachineInstance, *key, MergePatch(patch))"
_DELETED = "was_there = delete_observed(self._client, self._attachments, action.pod)"

# In the order in which they are made.
ATTACHING = (
    Death("the attachment Pod is to be made", _LOOP, "created = self._client.create(action.pod)"),
    Death("the attachment Pod was made", _LOOP, "created = self._client.create(action.pod)", after=True),
    Death("the controller has written the status", _LOOP, _PATCHED, after=True),
    Death("the image is to be made", _HAND_OVER, _MADE),
    Death("the image was made", _HAND_OVER, _MADE, after=True),
    Death("the place of the image was made", _HAND_OVER, "os.close(place)", after=True),
    Death("the image was mounted", _HAND_OVER, _MOUNTED, after=True),
    Death("the device's node was made", _HAND_OVER, _MKNOD, after=True),
    Death("the device was allowed", _HAND_OVER, "allow_device(launcher, facts.st_rdev)", after=True),
    Death("the device's node is to be renamed", _HAND_OVER, _RENAMED),
    Death("the device was handed over", _HAND_OVER, _RENAMED, after=True),
    Death("the handler has written the status", _SYNC, _REPORTED, after=True),
    Death("the device is to be held", _KEEPER, "self._locks.take(wish)"),
    Death("the disk is to be attached", _KEEPER, "self._session.attach_device(document.xml)"),
    Death("the disk was attached", _KEEPER, "self._session.attach_device(document.xml)", after=True),
)
DETACHING = (
    Death("the disk is to be detached", _KEEPER, "self._session.detach_device(step.name)"),
    Death("the disk was detached", _KEEPER, "self._session.detach_device(step.name)", after=True),
    Death("the volume is to be taken back", _HAND_OVER, _TAKEN_BACK),
    Death("the node has its last name", _HAND_OVER, _GOING, after=True),
    Death("the device was denied", _HAND_OVER, "deny_device(launcher, facts.st_rdev)", after=True),
    Death("the image was unmounted", _HAND_OVER, "_unmount_all(file)", after=True),
    Death("the place of the image was removed", _HAND_OVER, "_remove(directory, file)", after=True),
    Death("the handler has said what is gone", _SYNC, _REPORTED, after=True),
    Death("the attachment Pod is to be deleted", _LOOP, _DELETED),
    Death("the attachment Pod was deleted", _LOOP, _DELETED, after=True),
)


def make_mortal(checkout: Path) -> None:
    """Let the program of a checkout die at these steps."""
    (checkout / "kvedge" / "dying.py").write_text(_WORDS)
    # When a process began is known from its very beginning: a step may be in another namespace, with another /proc.
    with (checkout / "kvedge" / "__init__.py").open("a") as file:
        file.write("\nfrom kvedge import dying\n")
    for death in (*ATTACHING, *DETACHING):
        path = checkout / "kvedge" / death.file
        path.write_text(_with_death(path.read_text(), death))


def set_mark(checkout: Path, death: Death) -> None:
    """Have the process that comes to this step die there."""
    made = checkout / "kvedge" / "die-at.new"
    made.write_text(death.name)
    made.rename(checkout / "kvedge" / "die-at")


def _with_death(source: str, death: Death) -> str:
    lines = source.splitlines(keepends=True)
    (at,) = (number for number, line in enumerate(lines) if line.strip() == death.line)
    indent = lines[at][: -len(lines[at].lstrip())]
    call = f"{indent}__import__('kvedge').dying.step({death.name!r})\n"
    lines.insert(at + 1 if death.after else at, call)
    return "".join(lines)
