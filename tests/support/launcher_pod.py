"""A launcher Pod without Kubernetes: namespaces, mounts, a user without privileges, and the real launcher in them.

For the machine tests of the launcher; needs root. Everything in it ends with the context: the launcher is PID 1 of its
own PID namespace, mounts and links live in its own mount and network namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from kvedge.resources.values.quantities import parse_bytes
from kvedge.rpc import launcher_pb2 as messages
from kvedge.rpc.launcher_pb2_grpc import LauncherStub
from tests.support.waiting import note_in_vain, patience, wait_until

UID = "11111111-1111-4111-8111-111111111111"
QEMU_USER = 107
BRIDGE = "k6t-eth0"
TAP = "tap0"
GUEST_MAC = "02:00:00:00:00:07"
GUEST_ADDRESS = "10.77.0.2"
SERVER_ADDRESS = "169.254.75.10"
GATEWAY = "10.77.0.1"

# Inside the new namespaces: a Pod's /dev and /run, then the user without privileges.
_ENTER = r"""
set -e
pod=$1; shift
mount --make-rprivate /
dev=$pod/dev
mount -t tmpfs -o mode=755 dev "$dev"
node() { mkdir -p "$(dirname "$dev/$1")"; mknod "$dev/$1" c "$2" "$3"; chmod "$4" "$dev/$1"; }
node null 1 3 666; node zero 1 5 666; node full 1 7 666; node random 1 8 666; node urandom 1 9 666; node tty 5 0 666
# A device that the kubelet gives a Pod belongs to the Pod's user.
node net/tun 10 200 600; chown 107:107 "$dev/net/tun"
mkdir "$dev/shm"; chmod 1777 "$dev/shm"; ln -s /proc/self/fd "$dev/fd"
mount --move "$dev" /dev
mount -t tmpfs -o mode=755 run /run
bind() { mkdir -p "$2"; mount --bind "$1" "$2"; }
bind "$pod/private" /run/kubevirt-private
bind "$pod/public" /run/kubevirt
bind "$pod/sockets" /run/kubevirt/sockets
bind "$pod/ephemeral" /run/kubevirt-ephemeral-disks
bind "$pod/runtime" /run/libvirt
bind "$pod/capabilities" /run/kubevirt-capabilities
for image in "$pod"/images/*; do
    [ -d "$image" ] && bind "$image" "/run/kubevirt-image-volume/$(basename "$image")"
done
ip link set lo up
ip link add k6t-eth0 type bridge
ip addr add 169.254.75.10/32 dev k6t-eth0
ip addr add 10.77.0.1/24 dev k6t-eth0
ip link set k6t-eth0 up
ip tuntap add tap0 mode tap user 107 group 107
ip link set tap0 master k6t-eth0 up
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
@before@
exec setpriv --reuid 107 --regid 107 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"
"""


@dataclass
class LauncherPod:
    """A Pod that has been started; `exit_code` is filled in when it has ended."""

    directory: Path
    process: subprocess.Popen[bytes]
    namespace: str = "default"
    name: str = "web"
    uid: str = UID
    channel: Any = field(default=None, repr=False)

    @property
    def socket_path(self) -> Path:
        """The gRPC socket as root sees it."""
        return self.directory / "sockets" / "launcher-sock"

    @property
    def stub(self) -> Any:
        """A client, once the server is up."""
        if self.channel is None:
            wait_until(self._answers, "the launcher's socket", pause=0.01)
            self.channel = grpc.insecure_channel(f"unix:{self.socket_path}")
        return LauncherStub(self.channel)

    @property
    def log(self) -> str:
        """What the Pod has printed so far."""
        return (self.directory / "log").read_text()

    def call(self, method: str, request: Any = None, seconds: float = 30.0) -> Any:
        """One call of the service; a request without fields when none is given. A call to a starting server waits."""
        request = getattr(messages, f"{method}Request")() if request is None else request
        return getattr(self.stub, method)(request, timeout=seconds, wait_for_ready=True)

    def sync(self, vmi: dict[str, Any] | None = None, *, network: bool = False, seconds: float = 60.0) -> Any:
        """Sync the VMI (an empty guest by default), with the Pod's one NIC if wanted."""
        document = json.dumps(vmi or self.vmi()).encode()
        interfaces = [guest_interface()] if network else []
        options = messages.NodeOptions(emulation=True)
        memory = (vmi or self.vmi())["spec"]["domain"]["memory"]
        # A test may send what is no VMI.
        wanted = memory.get("guest", 0) if isinstance(memory, dict) else 0
        request = messages.SyncRequest(
            vmi_json=document, interfaces=interfaces, options=options, memory_bytes=parse_bytes(wanted)
        )
        return self.call("Sync", request, seconds)

    def vmi(self, **spec: Any) -> dict[str, Any]:
        """A VMI of this Pod: 64 MiB, no disk, unless `spec` says otherwise."""
        return {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid},
            "spec": {"domain": {"memory": {"guest": "64Mi"}, "devices": {}}, **spec},
        }

    def wait_state(self, state: int, seconds: float = 30.0) -> Any:
        """The status, once the domain is in this state."""

        def there() -> Any:
            status = self.call("GetDomain")
            return status if status.state == state else None

        return wait_until(there, f"domain state {messages.DomainState.Name(state)}", seconds)

    def wait_exit(self, seconds: float = 40.0) -> int:
        """The Pod's exit code, once it has ended."""
        return self.process.wait(seconds)

    def final(self) -> dict[str, Any]:
        """The launcher's last word."""
        return dict(json.loads((self.directory / "public" / "final.json").read_text()))

    def monitor_pid(self) -> int:
        """PID 1 of the Pod, as the host counts."""
        return wait_until(lambda: next(iter(_children(self.process.pid)), 0), "the Pod's PID 1")

    def processes(self) -> dict[int, str]:
        """All processes of the Pod but PID 1: host PID to command name with state, zombies included."""
        monitor = self.monitor_pid()
        found = {}
        for pid in _descendants(monitor):
            with contextlib.suppress(OSError):
                name, state = _stat(pid)
                found[pid] = f"{name} {state}"
        return found

    def launcher_pid(self) -> int:
        """The launcher proper, as the host counts: who listens on the socket."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket_path))
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def launcher_memory(self, which: str) -> int:
        """So many KiB of the launcher's memory: `VmRSS` is now, `RssAnon` without files, `VmHWM` was its largest."""
        status = Path(f"/proc/{self.launcher_pid()}/status").read_text()
        return int(status.partition(f"{which}:")[2].split()[0])

    def launcher_seconds(self) -> float:
        """The CPU time that the launcher has used so far."""
        fields = Path(f"/proc/{self.launcher_pid()}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def qemu_pids(self) -> list[int]:
        """Running QEMUs of the Pod, as the host counts."""
        return [pid for pid, name in self.processes().items() if name.startswith("qemu-system") and name[-1] != "Z"]

    def run(self, *command: str, seconds: float = 20.0) -> str:
        """What a command prints in the Pod's network namespace, run as root; empty when it fails."""
        enter = ["nsenter", "-t", str(self.monitor_pid()), "-n", "--", *command]
        done = subprocess.run(enter, capture_output=True, text=True, timeout=seconds, check=False)
        return done.stdout if done.returncode == 0 else ""

    def run_in_mounts(self, *command: str) -> str:
        """What a command prints in the Pod's mount namespace, run as root."""
        enter = ["nsenter", "-t", str(self.monitor_pid()), "-m", "--", *command]
        return subprocess.run(enter, capture_output=True, text=True, timeout=20, check=True).stdout

    def console(self) -> Console:
        """The guest's serial console."""
        return Console(self.directory / "private" / self.uid / "virt-serial0")

    def guest_facts(self) -> dict[str, str]:
        """What the guest's web page says, once it answers."""
        page = wait_until(self._page, "the guest's web page", seconds=60)
        return dict(line.split("=", 1) for line in page.splitlines() if "=" in line)

    def _page(self) -> str:
        self._check_alive()
        return self.run("curl", "-sf", "--max-time", "2", f"http://{GUEST_ADDRESS}/facts")

    def _check_alive(self) -> None:
        if self.process.poll() is not None:
            raise AssertionError(f"the Pod ended with {self.process.returncode}:\n{self.log}")

    def _answers(self) -> bool:
        self._check_alive()
        try:
            self.launcher_pid()
        except OSError:
            return False
        return True


class Console:
    """A unix socket that a guest's serial port is at; reads until what is expected has come."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        # The path is longer than a socket's name may be.
        opened = os.open(path, os.O_PATH)
        self._socket.connect(f"/proc/self/fd/{opened}")
        os.close(opened)
        self.seen = b""

    def expect(self, text: bytes, seconds: float = 60.0) -> None:
        """Read until `text` has come; it is then consumed."""
        deadline = time.monotonic() + seconds * patience()
        while text not in self.seen:
            self._socket.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                piece = self._socket.recv(4096)
            except TimeoutError:
                note_in_vain(f"{text!r} on a console")
                raise AssertionError(f"{text!r} did not come, only {self.seen[-2000:]!r}") from None
            if not piece:
                raise AssertionError(f"the console ended without {text!r}: {self.seen[-2000:]!r}")
            self.seen += piece
        self.seen = self.seen.split(text, 1)[1]

    def send(self, line: str) -> None:
        """Type a line."""
        self._socket.sendall(line.encode() + b"\n")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Watch:
    """A WatchDomain stream, collected in a thread."""

    def __init__(self, pod: LauncherPod) -> None:
        self.statuses: list[Any] = []
        self.ended = threading.Event()
        self.call = pod.stub.WatchDomain(messages.WatchDomainRequest(), timeout=300)
        threading.Thread(target=self._collect, name="test-watch", daemon=True).start()

    def _collect(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for status in self.call:
                self.statuses.append(status)
        self.ended.set()

    def states(self) -> list[str]:
        """The names of the states seen so far."""
        return [messages.DomainState.Name(status.state).removeprefix("DOMAIN_STATE_") for status in self.statuses]


def guest_interface() -> Any:
    """The Pod's one NIC, with a lease for the guest."""
    return messages.GuestInterface(
        name="default",
        tap=TAP,
        bridge=BRIDGE,
        mac=GUEST_MAC,
        mtu=1400,
        dhcp=messages.DhcpLease(
            address=GUEST_ADDRESS,
            prefix_length=24,
            server=SERVER_ADDRESS,
            gateway=GATEWAY,
            dns=["10.77.0.53"],
            search=["default.svc.cluster.local"],
            hostname="web",
            mtu=1400,
        ),
    )


NETWORK = {
    "networks": [{"name": "default", "pod": {}}],
    "interfaces": [{"name": "default", "bridge": {}, "macAddress": GUEST_MAC, "model": "virtio"}],
}


@contextlib.contextmanager
def launcher_pod(
    directory: Path,
    *,
    seed: Path | None = None,
    images: dict[str, Path] | None = None,
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    before: str = "",
) -> Iterator[LauncherPod]:
    """Start a launcher Pod below `directory`; everything in it is gone afterwards.

    `seed` is a directory with libvirt's capabilities; `images` are the Pod's image volumes by name (`disk_0`,
    `kernel-boot`); `options` go to the launcher; `command` replaces it; `before` is shell that root runs in the
    namespaces just before it.
    """
    pod = LauncherPod(directory, _start(directory, seed, images or {}, options, command, before))
    try:
        yield pod
    finally:
        if pod.channel is not None:
            pod.channel.close()
        # PID 1 first, which takes the whole Pod along: the change of its user has undone what --kill-child asked for.
        for child in _children(pod.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        pod.process.kill()
        pod.process.wait()


def _start(
    directory: Path,
    seed: Path | None,
    images: dict[str, Path],
    options: Sequence[str],
    command: Sequence[str],
    before: str,
) -> subprocess.Popen[bytes]:
    for name in ("private", "public", "sockets", "ephemeral", "runtime", "capabilities", "dev", "images"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    for name in ("private", "public", "sockets", "ephemeral", "runtime"):
        os.chown(directory / name, QEMU_USER, QEMU_USER)
    for path in seed.iterdir() if seed is not None else ():
        (directory / "capabilities" / path.name).write_bytes(path.read_bytes())
    for name, tree in images.items():
        with contextlib.suppress(FileExistsError):
            (directory / "images" / name).symlink_to(tree)
    launcher = [sys.executable, "-P", "-m", "kvedge", "launcher", "--monitor"]
    launcher += ["--namespace", "default", "--name", "web", "--uid", UID, *options]
    enter = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [*enter, "sh", "-c", _ENTER.replace("@before@", before), "pod", str(directory), *(command or launcher)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
        )


def _stat(pid: int) -> tuple[str, str]:
    name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    return name, rest.split()[0]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _descendants(pid: int) -> list[int]:
    found = []
    for child in _children(pid):
        found += [child, *_descendants(child)]
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """As kill(2)."""
    os.kill(pid, number)
