"""A `kvedge standalone` of a test's own: started as users start it, killed as power cuts do, looked at from outside.

Used by the machine tests. Runs as root; everything it makes is below one data directory and is removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import yaml

from kvedge.client.discovery import ServedKind, kind_of_document, list_served_kinds
from kvedge.client.errors import RefusedError
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind
from kvedge.resources.names import CREATED_BY
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.linux.loop_devices import detach_loop
from tests.support.ended_runs import announce_box, retract_box
from tests.support.ports import free_port
from tests.support.waiting import wait_until

# A box that is shared with a compiler may be slow; a guest that hangs must not hold the run for long.
BOOT_SECONDS = 90.0
CHECKOUT = (sys.executable, "-m", "kvedge")


def service_cidr_for(pod_cidr: str) -> str:
    """Addresses for Services that no box with another Pod network has: boxes of several tests share this host."""
    _, second, third, *_ = pod_cidr.split(".")
    return f"100.{64 + int(second) % 64}.{third}.0/24"


class Box:
    """One box: its process, its API, its guests."""

    def __init__(
        self, data_dir: Path, pod_cidr: str, log_level: str = "debug", program: Sequence[str] = CHECKOUT
    ) -> None:
        self.data_dir = data_dir
        self.program = list(program)
        # Short, as a socket's path is, and seen at the same place by the program.
        self.notify_directory = Path("/run")
        self.pod_cidr = pod_cidr
        self.log_level = log_level
        self.kubeconfig = data_dir / "kubeconfig"
        self.log = data_dir / "standalone.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._client: KubeClient | None = None
        self._kinds: list[ServedKind] = []
        self.port = free_port()
        # Further options of `kvedge standalone`.
        self.options: list[str] = []
        announce_box(data_dir, pod_cidr)

    @property
    def client(self) -> KubeClient:
        """A client with the user's kubeconfig."""
        if self._client is None:
            self._client = KubeClient.from_kubeconfig(self.kubeconfig)
        return self._client

    def command(self, *arguments: str) -> list[str]:
        """The program's argv."""
        return [*self.program, *arguments]

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a verb against this box."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, env=environment, cwd="/", timeout=120
        )
        assert not check or done.returncode == 0, done.stderr or done.stdout
        return done

    def start(self) -> None:
        """Start it and wait until it says READY, as systemd would."""
        arguments = ["standalone", "--data-dir", str(self.data_dir), "--port", str(self.port)]
        arguments += [
            "--pod-cidr",
            self.pod_cidr,
            "--service-cidr",
            service_cidr_for(self.pod_cidr),
            "--emulation",
            "tcg",
            "--log-level",
            self.log_level,
            *self.options,
        ]
        self.data_dir.mkdir(parents=True, exist_ok=True)
        path = f"{self.notify_directory}/kvedge-test-{os.getpid()}-{self.port}.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, self.log.open("ab") as log:
            listener.bind(path)
            listener.settimeout(0.2)
            try:
                self.process = subprocess.Popen(
                    self.command(*arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "NOTIFY_SOCKET": path},
                    cwd="/",
                    start_new_session=True,
                )
                wait_until(lambda: self._is_ready(listener), "kvedge standalone is ready", 120, 0.0)
            finally:
                os.unlink(path)

    def _is_ready(self, listener: socket.socket) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"kvedge standalone exited with {self.process.returncode}:\n{self.log_tail()}")
        with contextlib.suppress(TimeoutError):
            return "READY=1" in listener.recv(4096).decode()
        return False

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the process and wait until it is gone; guests are not asked."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)
        self.process = None

    def remove(self) -> None:
        """End everything and remove everything."""
        if self.process is not None:
            self.end(signal.SIGTERM)
        if self._client is not None:
            self._client.close()
        self.cli("killall", "--data-dir", str(self.data_dir), "--pod-cidr", self.pod_cidr)
        self._detach_loops()
        retract_box(self.data_dir)
        shutil.rmtree(self.data_dir)

    def _detach_loops(self) -> None:
        """Take the files of block volumes off their loop devices, which nothing of the program does to data."""
        for name in Path("/sys/block").glob("loop*/loop/backing_file"):
            # One of somebody else's may just go.
            with contextlib.suppress(OSError):
                if name.read_text().startswith(f"{self.data_dir}/"):
                    detach_loop(Path("/dev") / name.parents[1].name)

    def import_image(self, disk: Path, name: str) -> None:
        """Put a disk into the image store."""
        self.cli("image", "import", str(disk), "--name", name, "--data-dir", str(self.data_dir))

    def apply(self, manifest: JsonObject | str) -> None:
        """Apply manifests as the program's own verb does, without a process for each."""
        for document in yaml.safe_load_all(manifest) if isinstance(manifest, str) else [manifest]:
            kind = self._kind_of(document)
            namespace = document["metadata"].get("namespace", "default") if kind.namespaced else ""
            path = kind.path(namespace, document["metadata"]["name"])
            query = {"fieldManager": "kvedge"}
            self.client.request("PATCH", path, document, query, media_type="application/apply-patch+yaml")

    def _kind_of(self, document: JsonObject) -> Kind:
        with contextlib.suppress(RefusedError):
            return kind_of_document(self._kinds, document)
        # The first one, or one that came since.
        self._kinds = list_served_kinds(self.client)
        return kind_of_document(self._kinds, document)

    def apply_by_verb(self, manifest: JsonObject) -> None:
        """Apply a manifest with `kvedge apply`."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(manifest, file)
            file.flush()
            self.cli("apply", "-f", file.name)

    def vm(self, name: str) -> VirtualMachine:
        """The VM as it is."""
        return self.client.get(VirtualMachine, "default", name)

    def vmi(self, name: str) -> VirtualMachineInstance | None:
        """The VMI as it is, or None."""
        with contextlib.suppress(NotFound):
            return self.client.get(VirtualMachineInstance, "default", name)
        return None

    def pods(self, vmi: VirtualMachineInstance) -> list[Pod]:
        """The launcher Pods of a VMI."""
        return self.client.list(Pod, "default", label_selector=f"{CREATED_BY}={vmi.metadata.uid}")

    def wait_phase(self, name: str, phase: str, seconds: float = BOOT_SECONDS) -> VirtualMachineInstance:
        """The VMI once it has this phase."""

        def check() -> VirtualMachineInstance | None:
            vmi = self.vmi(name)
            return vmi if vmi is not None and vmi.status.phase == phase else None

        try:
            return wait_until(check, f"VMI {name} is {phase}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told(name)}") from error

    def told(self, name: str) -> str:
        """What the box says of a VMI, and the last lines of its log."""
        found = self.cli("describe", "vmi", name, check=False)
        return f"{found.stdout}{found.stderr}\n{self.log_tail()}"

    def wait_gone(self, name: str, seconds: float = 60.0) -> None:
        """Until there is no VMI of that name."""
        wait_until(lambda: self.vmi(name) is None, f"VMI {name} is gone", seconds)

    def remove_vm(self, name: str) -> None:
        """Delete a VM whose guest is no test's subject any more, and wait until nothing of it runs."""
        end_guest(self.client, "default", name)
        with contextlib.suppress(NotFound):
            self.client.delete(VirtualMachine, "default", name)
        self.wait_gone(name, 90)
        wait_until(lambda: self._is_forgotten(name), f"VM {name} is gone")

    def _is_forgotten(self, name: str) -> bool:
        try:
            self.vm(name)
        except NotFound:
            return True
        return False

    def wait_answer(self, name: str, seconds: float = BOOT_SECONDS) -> str:
        """What the guest's web page says, asked at the address that the VMI reports."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def ask() -> str:
            vmi = self.vmi(name)
            if vmi is None or not vmi.status.interfaces:
                return ""
            url = f"http://{vmi.status.interfaces[0].ip_address}/"
            with contextlib.suppress(OSError), opener.open(url, timeout=1) as answer:
                return str(answer.read(65536).decode())
            return ""

        return wait_until(ask, f"the guest of {name} answers HTTP", seconds)

    def qemu_pids(self, vmi_uid: str) -> list[int]:
        """The QEMU processes of one VMI on this host: more than one is the end of the company."""
        return [
            pid for pid, command in processes() if "qemu-system" in command[0] and any(vmi_uid in a for a in command)
        ]

    def launcher_pids(self, vmi_uid: str) -> list[int]:
        """The monitor and the launcher proper, oldest first."""
        return [
            pid
            for pid, command in processes()
            if "launcher" in command
            and vmi_uid in command
            and os.path.basename(command[0]).startswith(("python", "kvedge"))
        ]


def end_guest(client: KubeClient, namespace: str, name: str) -> None:
    """Stop a VM without asking its guest, which may still boot and would then use all of its grace period."""
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}/stop"
    # One that is not there, or does not run, needs no stop.
    with contextlib.suppress(KubeError):
        client.request("PUT", path, {"gracePeriod": 0})


def processes() -> list[tuple[int, list[str]]]:
    """All processes of this host with their command lines, oldest first: numbers begin anew after the highest one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if command[0]:
                    found.append((_begun(entry), int(entry.name), command))
    return [(pid, command) for _, pid, command in sorted(found)]


def _begun(process: Path) -> int:
    """In ticks of the kernel since it began itself."""
    # The command's name, in parentheses, may have spaces.
    return int((process / "stat").read_text().rpartition(")")[2].split()[19])


def small_vm(name: str, image: str, run_strategy: str = "Always", **spec: object) -> JsonObject:
    """A VM with the test guest on a container disk and one bridge interface."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {
            "runStrategy": run_strategy,
            "template": {
                "spec": {
                    "terminationGracePeriodSeconds": 20,
                    "domain": {
                        "memory": {"guest": "128Mi"},
                        "devices": {
                            "disks": [{"name": "system", "disk": {"bus": "virtio"}}],
                            "interfaces": [{"name": "default", "bridge": {}}],
                            "rng": {},
                        },
                    },
                    "networks": [{"name": "default", "pod": {}}],
                    "volumes": [{"name": "system", "containerDisk": {"image": image}}],
                    **spec,
                }
            },
        },
    }
