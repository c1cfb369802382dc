"""Where the agent keeps what it knows of a Pod: below `<data-dir>/kubelet/pods/<uid>/`, as the kubelet does.

Called by everything in this folder that reads or writes there. Paths only.

    pod.json                        the Pod as it was taken on, and what was set up for it
    containers/<name>.json          who runs (written by the starter, before the command may run)
    containers/<name>.lock          held while the container's holder lives
    containers/<name>.exit          how it ended
    containers/<name>.termination   what it says as its last word, which it writes itself
    containers/<name>.answer        how a start that is under way went (a FIFO)
    containers/<name>.process       what further processes in it are like
    containers/<name>.<kind>        how one that is under way ended (a FIFO)
    containers/<name>.session-<token>    the same for one of a user's, and the socket for its streams
    containers/<name>.root/         where its file system is put together, in its own mount namespace
    volumes/kubernetes.io~<plugin>/<volume>/
    volumeDevices/kubernetes.io~local-volume/<volume>   a link to the device of a block claim
    logs/<name>.log
    etc-hosts, resolv.conf
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class ContainerFiles(Struct, frozen=True):
    """One container's files."""

    pod: Path
    name: str

    @property
    def record(self) -> Path:
        """The record of the process that runs."""
        return self.pod / "containers" / f"{self.name}.json"

    @property
    def lock(self) -> Path:
        """The lock of the process that may start the container."""
        return self.pod / "containers" / f"{self.name}.lock"

    @property
    def exit(self) -> Path:
        """How it ended."""
        return self.pod / "containers" / f"{self.name}.exit"

    @property
    def termination(self) -> Path:
        """What it says as its last word."""
        return self.pod / "containers" / f"{self.name}.termination"

    @property
    def answer(self) -> Path:
        """Where its starter says how the start went."""
        return self.pod / "containers" / f"{self.name}.answer"

    @property
    def process(self) -> Path:
        """What further processes in it are like."""
        return self.pod / "containers" / f"{self.name}.process"

    def probe(self, kind: str) -> Path:
        """Where one that a probe of this kind starts says how it ended."""
        return self.pod / "containers" / f"{self.name}.{kind.lower()}"

    def session(self, token: str) -> Path:
        """Where one that a user started says how it ended; its streams come over the socket `<this>.streams`."""
        return self.pod / "containers" / f"{self.name}.session-{token}"

    @property
    def stage(self) -> Path:
        """The mount point of its root."""
        return self.pod / "containers" / f"{self.name}.root"

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.pod / "logs" / f"{self.name}.log"


class PodFiles(Struct, frozen=True):
    """One Pod's files."""

    path: Path

    @property
    def uid(self) -> str:
        """The Pod's UID."""
        return self.path.name

    @property
    def record(self) -> Path:
        """The Pod as it was taken on."""
        return self.path / "pod.json"

    @property
    def kept(self) -> Path:
        """Where its data is saved when the object store has forgotten it: `<data-dir>/kubelet/lost/<uid>/`."""
        return self.path.parent.parent / "lost" / self.uid

    @property
    def hosts(self) -> Path:
        """/etc/hosts of its containers."""
        return self.path / "etc-hosts"

    @property
    def resolv(self) -> Path:
        """/etc/resolv.conf of its containers."""
        return self.path / "resolv.conf"

    def volume(self, plugin: str, name: str) -> Path:
        """A volume's directory; `plugin` such as empty-dir, secret, configmap."""
        return self.path / "volumes" / f"kubernetes.io~{plugin}" / name

    @property
    def devices(self) -> Path:
        """What leads to the devices of its block claims: by it the handler knows that the agent gave them."""
        return self.path / "volumeDevices"

    def device(self, name: str) -> Path:
        """The link to the device of a volume."""
        return self.devices / "kubernetes.io~local-volume" / name

    def container(self, name: str) -> ContainerFiles:
        """One container's files."""
        return ContainerFiles(self.path, name)
