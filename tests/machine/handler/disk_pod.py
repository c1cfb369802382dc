"""A launcher Pod without Kubernetes: a launcher and containers of images, as a container runtime would start them.

They are real containers (of the one-box agent's starter), with mount and network namespaces of their own; the kubelet's
directory is one of the test's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvedge.controller.vmi.launcher_pod.disk_container_manifest import KEEP_ALIVE
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.launcher_socket import volume_directory
from kvedge.handler.node.container_disk_mounts import ContainerDiskMounts
from kvedge.network.netns import create_netns, delete_netns
from kvedge.resources.codec import decode
from kvedge.resources.types.image_trees import image_trees
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.standalone.agent.container.container_spec import MountSpec
from kvedge.standalone.agent.container.container_state import Running, signal_container
from tests.machine.agent.containers import Containers, containers, mount
from tests.support.waiting import wait_until

POD_UID = "33333333-3333-3333-3333-333333333333"
_LIBRARIES = (("/usr/lib", "/lib"), ("/usr/lib64", "/lib64"))


def image(path: Path, disk: bytes = b"a raw disk", name: str = "disk/disk.img") -> Path:
    """The tree of an image made from nothing, with one file."""
    file = path / name
    file.parent.mkdir(parents=True)
    file.write_bytes(disk)
    return path


class DiskPod:
    """One Pod; what is mounted in it is gone with its containers."""

    def __init__(self, path: Path, netns: Path, made: Containers, names: list[str]) -> None:
        self.kubelet = path / "kubelet"
        self.vmi = decode(
            VirtualMachineInstance,
            {
                "metadata": {"name": "web", "namespace": "default", "uid": "22222222-2222-2222-2222-222222222222"},
                "spec": {
                    "domain": {"devices": {}},
                    "volumes": [{"name": name, "containerDisk": {"image": f"registry/{name}:1"}} for name in names],
                },
            },
        )
        self.trees = {tree.name.removeprefix("volume"): tree for tree in image_trees(self.vmi)}
        self.disks = ContainerDiskMounts(self.kubelet)
        self._netns = netns
        self._containers = made
        for name in names:
            self.volume(name).mkdir(parents=True)

    def volume(self, name: str) -> Path:
        """The empty volume on the host."""
        return volume_directory(self.kubelet, POD_UID, self.trees[name].name)

    def start_launcher(self, tree: Path, container: str = "compute") -> int:
        """A launcher with all volumes; its process on the host."""
        return self._start(container, tree, ["sleep", "1000"], [self._shared(name) for name in self.trees])

    def start_disk(self, name: str, tree: Path, argv: list[str] | None = None, container: str = "") -> int:
        """The container of an image, with what the controller gives it."""
        host = [mount("/usr", "/usr", read_only=True)]
        host += [mount(path, target, read_only=True) for path, target in _LIBRARIES if Path(path).is_dir()]
        pid = self._start(container or name, tree, argv or list(KEEP_ALIVE), [*host, self._shared(name)])
        if argv is None:
            # The shell listens for its end before it waits for anything.
            wait_until(Path(f"/proc/{pid}/task/{pid}/children").read_text, "it sleeps")
        return pid

    def start_other(self, container: str, tree: Path, env: dict[str, str]) -> int:
        """A container that has nothing to do with any disk."""
        return self._start(container, tree, ["sleep", "1000"], [], env)

    def _shared(self, name: str) -> MountSpec:
        return mount(self.volume(name), self.trees[name].path, read_only=True)

    def _start(
        self, name: str, tree: Path, argv: list[str], mounts: list[MountSpec], env: dict[str, str] | None = None
    ) -> int:
        files = self._containers.start(
            name,
            "",
            root=str(tree),
            argv=argv,
            mounts=mounts,
            netns=str(self._netns),
            env={"PATH": "/bin", **(env or {})},
        )
        state = self._containers.state(files)
        assert isinstance(state, Running), files.log.read_text()
        # The record is written just before the command runs, which may become one that it names.
        wait_until(lambda: Path(f"/proc/{state.pid}/cmdline").read_text().split("\0")[0] in argv, "its command")
        return state.pid

    def end(self, name: str) -> None:
        """Kill a container."""
        files = self._containers.files.container(name)
        signal_container(files, signal.SIGKILL, self._containers.boot)
        self._containers.ended(files)

    def stop(self, name: str) -> int:
        """Ask a container to end; its exit code."""
        files = self._containers.files.container(name)
        signal_container(files, signal.SIGTERM, self._containers.boot)
        return self._containers.ended(files).exit_code

    def prepare(self, launcher: int) -> None:
        """What the handler does before it starts the guest."""
        with HeldProcess.of(launcher) as held:
            self.disks.prepare(self.vmi, held, POD_UID)

    def seen(self, launcher: int, name: str) -> Path:
        """Where the launcher has an image, looked at from the host."""
        # Its /var/run is a link, which would lead into the host's from here.
        return Path(f"/proc/{launcher}/root{self.trees[name].path.removeprefix('/var')}")


def mounts_of(pid: int, below: str) -> list[list[str]]:
    """The lines of a process's mount table for what is mounted at or below a path of its own."""
    lines = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    return [line for line in lines if line[4].startswith(below)]


@contextmanager
def disk_pod(path: Path, names: list[str]) -> Iterator[DiskPod]:
    """A Pod for the VMI with these container disks."""
    name = f"kvt{os.getpid()}-disks"
    netns = create_netns(name)
    try:
        with containers(path, path) as made:
            yield DiskPod(path, netns, made, names)
    finally:
        delete_netns(name)
