"""An embedded API and a node agent on a data directory of a test's own; everything is removed with the test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Container, EmptyDirVolume, Event, Pod, PodSpec, PodVolume, VolumeMount
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.runtime.mount_table import mount_table
from kvedge.standalone.agent.agent_removal import remove_everything
from kvedge.standalone.agent.agent_service import AgentConfig
from kvedge.standalone.agent.container.cgroups import find_hierarchies
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_logs import ContainerLogs
from kvedge.standalone.agent.container.container_sessions import ContainerSessions
from kvedge.standalone.agent.container.container_start import ContainerStarter
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore
from tests.support.ended_runs import announce_box, retract_box
from tests.support.waiting import wait_until

NODE = "box"


class Box:
    """What a test of the agent works with."""

    def __init__(self, data: Path, busybox: Path, cidr: str, dedicated_cpus: str = "") -> None:
        self.data = data
        self.dedicated_cpus = dedicated_cpus
        self.config = AgentConfig(node=NODE, data_dir=data, kubelet=data / "kubelet", pod_cidr=cidr)
        announce_box(data, cidr)
        self.store = ImageStore(data / "images")
        import_file(self.store, busybox, "busybox")
        # As `kvedge standalone` does it; logs and commands need nothing of the agent but its directory.
        self._logs = ContainerLogs(self.config.pods, read_boot_id())
        self._starter = ContainerStarter()
        self._sessions = ContainerSessions(self.config.pods, read_boot_id(), self._starter)
        self._api = EmbeddedApi(ApiServerConfig(data, port=0), self._logs, self._sessions)
        self._api.start()
        self._port = int(self._api.address.rpartition(":")[2])
        self.kubeconfig = data / "kubeconfig"
        self._api.write_kubeconfig(self.kubeconfig, "admin", ["system:masters"])
        self.client = KubeClient.from_kubeconfig(self.kubeconfig)
        self.process: subprocess.Popen[str] | None = None
        self.log = data / "agent.log"

    @property
    def api(self) -> EmbeddedApi:
        """The API, for those that serve the box beside the agent."""
        return self._api

    def start_agent(self) -> None:
        """Start the agent's process and wait until it is ready."""
        words = [sys.executable, "-m", "tests.machine.agent.agent_process"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*words, str(self.data), str(self.kubeconfig), NODE, self.config.pod_cidr, self.dedicated_cpus],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.log.read_text()

    def stop_agent(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the agent's process: with SIGTERM, or without a word."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

    def restart_api(self) -> None:
        """Stop the API, and start it again on the same port and store."""
        self._restart_api(lambda store: None)

    def damage_store(self) -> None:
        """Restart the API on a store that a dying disk has damaged: it puts its newest copy back."""
        self._restart_api(lambda store: store.write_bytes(b"rubbish" * 9999))

    def empty_store(self) -> None:
        """Restart the API with neither its store nor any copy: it begins a new one, with the same authority."""

        def remove(store: Path) -> None:
            for path in store.parent.glob("kvedge.db*"):
                path.unlink()
            shutil.rmtree(self.data / "backup")

        self._restart_api(remove)

    def _restart_api(self, meanwhile: Callable[[Path], object]) -> None:
        self._api.stop()
        meanwhile(self.data / "state" / "kvedge.db")
        self._api = EmbeddedApi(ApiServerConfig(self.data, port=self._port), self._logs, self._sessions)
        self._api.start()

    def create(self, name: str, script: str, **changes: Any) -> Pod:
        """A Pod that runs a shell script in busybox."""
        return self.client.create(shell_pod(name, script, **changes))

    def pod(self, name: str) -> Pod | None:
        """The Pod as the API has it, or None."""
        try:
            return self.client.get(Pod, "default", name)
        except NotFound:
            return None

    def in_phase(self, name: str, phase: str) -> Pod:
        """The Pod, once it is in that phase."""

        def look() -> Pod | None:
            pod = self.pod(name)
            return pod if pod is not None and pod.status.phase == phase else None

        found = wait_until(look, f"{name} {phase}: {self._why(name)}")
        assert found is not None
        return found

    def wait_gone(self, name: str, seconds: float = 60.0) -> None:
        """Until the Pod's object is gone."""
        wait_until(lambda: self.pod(name) is None, f"{name} gone", seconds)

    def files(self, pod: Pod) -> PodFiles:
        """Where the agent keeps it."""
        return PodFiles(self.config.pods / pod.metadata.uid)

    def said(self, pod: Pod, container: str = "c") -> str:
        """What a container has written so far."""
        path = self.files(pod).container(container).log
        return path.read_text() if path.exists() else ""

    def pid(self, pod: Pod, container: str = "c") -> int:
        """The container's first process."""
        import json

        return int(json.loads(self.files(pod).container(container).record.read_text())["pid"])

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of a Pod's events."""
        found = [event for event in self.client.list(Event) if event.involved_object.name == name]
        return [(event.reason, event.message) for event in found]

    def kubeconfig_of(self, user: str, *groups: str) -> Path:
        """A kubeconfig of another user."""
        path = self.data / f"{user}.kubeconfig"
        self._api.write_kubeconfig(path, user, groups)
        return path

    def close(self) -> None:
        """Take everything away again."""
        self.stop_agent(signal.SIGKILL)
        try:
            remove_everything(self.config, grace=0.5)
            retract_box(self.data)
        finally:
            self.client.close()
            self._api.stop()
            self._starter.stop()

    def _why(self, name: str) -> str:
        pod = self.pod(name)
        return repr(pod.status) if pod else "no such Pod"


@contextmanager
def box(data: Path, busybox: Path, cidr: str = "10.243.17.0/24", dedicated_cpus: str = "") -> Iterator[Box]:
    """For the duration of a test, without an agent yet."""
    made = Box(data, busybox, cidr, dedicated_cpus)
    try:
        yield made
    finally:
        made.close()


def shell_pod(name: str, script: str, **changes: Any) -> Pod:
    """A Pod with one container `c` and an emptyDir at /data."""
    container = Container(
        name="c",
        image="busybox",
        command=["sh", "-c", script],
        volume_mounts=[VolumeMount(name="data", mount_path="/data")],
    )
    metadata = changes.pop("metadata", None) or ObjectMeta(name=name, namespace="default")
    spec = PodSpec(
        restart_policy="Never",
        termination_grace_period_seconds=2,
        containers=[container],
        volumes=[PodVolume(name="data", empty_dir=EmptyDirVolume())],
    )
    for key, value in changes.items():
        setattr(spec, key, value)
    return Pod(metadata=metadata, spec=spec)


def marks(config: AgentConfig) -> list[str]:
    """Everything on this host that carries an instance's name."""
    found = [name for name in os.listdir("/sys/class/net") if name == config.instance]
    if os.path.isdir("/run/netns"):
        found += [name for name in os.listdir("/run/netns") if name.startswith(config.network.netns_prefix)]
    tops = [
        hierarchy.path / "kvedge" / config.instance for hierarchy in find_hierarchies(mount_table(), with_cpus=True)
    ]
    found += [str(top) for top in tops if top.exists()]
    table = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    found += [line for line in table.splitlines() if line.endswith(f" {config.network.table}")]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(config.data_dir) in line]
    return found
