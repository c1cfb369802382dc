"""One node of a test cluster: network, mount, PID and host name namespaces of its own, with containerd and a kubelet.

Everything that a node keeps is below one directory of the test, mounted where a machine of its own would have it
(/var/lib/kubelet, /var/lib/containerd, /var/lib/kvedge, /run), so that programs run with their default paths. When the
first process of the node ends, the kernel ends all others: a node that loses power.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.kube_apiserver import RealApiServer, assets
from tests.support.small_images import busybox_archive
from tests.support.waiting import wait_until

BRIDGE = "kvt-cluster"
# No box of the demo or of a test has it as its Pod network.
_NETWORK = "10.87.0"
# This machine's, where the control plane is.
GATEWAY = f"{_NETWORK}.1"
PAUSE = "kvedge.local/pause:1"
# A kubelet removes the logs of Pods that it does not know.
_LOGS = ("/var/log/pods", "/var/log/containers")
_KEPT = ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/kvedge", "/etc/cni", "/etc/kvedge", *_LOGS)
_CGROUPS = Path("/sys/fs/cgroup")
# The first process reaps whatever its node leaves behind, as an init does.
_INIT = """
set -e
mount --make-rprivate /
for path in $KEPT; do mount --bind "$DIRECTORY$path" "$path"; done
mount -t tmpfs -o size=256m tmpfs /run
mkdir -p /run/lock /run/netns
mount --make-rshared /
hostname "$NAME"
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
touch "$DIRECTORY/up"
while :; do sleep 1000 & wait $! || true; done
"""


@dataclass(frozen=True)
class NodePlace:
    """Where a node is: its number decides its addresses."""

    number: int
    name: str

    @property
    def address(self) -> str:
        return f"{_NETWORK}.{10 + self.number}"

    @property
    def pods(self) -> str:
        return f"10.42.{self.number}.0/24"


@dataclass
class MachineNode:
    """A node; start it, then its containerd and kubelet."""

    place: NodePlace
    directory: Path
    api: RealApiServer
    # Of containerd and its tools; by default the distribution's.
    containerd: Path = Path("/usr/bin")
    labels: Mapping[str, str] = field(default_factory=dict)
    kubelet_config: Mapping[str, Any] = field(default_factory=dict)
    # The kubelet's, once it has been started.
    kubeconfig: Path = Path()
    _init: subprocess.Popen[bytes] | None = None
    _pid: int = 0
    _programs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def is_on(self) -> bool:
        return self._init is not None

    def start(self, others: Sequence[NodePlace]) -> None:
        """Switch it on; its programs follow."""
        for path in _KEPT:
            (self.directory / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
            Path(path).mkdir(parents=True, exist_ok=True)
        (self.directory / "up").unlink(missing_ok=True)
        environment = {
            **os.environ,
            "KEPT": " ".join(_KEPT),
            "DIRECTORY": str(self.directory),
            "NAME": self.name,
        }
        # It ends with the tests, however they end.
        unshare = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--net",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ]
        with (self.directory / "init.log").open("ab") as log:
            self._init = subprocess.Popen(
                [*unshare, "bash", "-c", _INIT], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        wait_until((self.directory / "up").exists, f"node {self.name} is up", 20)
        self._pid = int(Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()[0])
        self._plug_in(others)

    def _plug_in(self, others: Sequence[NodePlace]) -> None:
        self._unplug()
        outer = f"kvt-{self.place.number}"
        _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", str(self._pid))
        _ip("link", "set", outer, "master", BRIDGE, "up")
        self.run("ip", "address", "add", f"{self.place.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "route", "add", "default", "via", GATEWAY)
        for other in others:
            if other.number != self.place.number:
                self.run("ip", "route", "add", other.pods, "via", other.address)
        _ip("route", "replace", self.place.pods, "via", self.place.address)

    @property
    def is_plugged_in(self) -> bool:
        """Whether its cable is up, as this machine has it."""
        flags = Path(f"/sys/class/net/kvt-{self.place.number}/flags")
        return flags.exists() and bool(int(flags.read_text(), 16) & 1)

    def set_link(self, state: str) -> None:
        """Its cable: `up` or `down`."""
        _ip("link", "set", f"kvt-{self.place.number}", state)

    def command(self, *arguments: str) -> list[str]:
        """The argv that runs something on this node."""
        assert self._pid
        return ["nsenter", "-t", str(self._pid), "-m", "-n", "-u", "-i", "-p", "--", *arguments]

    def run(self, *arguments: str, check: bool = True) -> str:
        """Run something on this node to its end; its output."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def spawn(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a program that stays; its log is `<name>.log` in the node's directory."""
        with (self.directory / f"{name}.log").open("ab") as log:
            self._programs[name] = subprocess.Popen(
                self.command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a program that `spawn` started, by a signal to itself rather than to what runs it."""
        pid, process = self.find(name), self._programs.pop(name)
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        process.wait(60)

    def find(self, name: str) -> int:
        """The number, as the host counts, of a program that `spawn` started, rather than of what runs it."""
        process = self._programs[name]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return int(children[0]) if children else process.pid

    def runner(self, name: str) -> int:
        """The number of what runs a program in the node's namespaces."""
        return self._programs[name].pid

    def is_running(self, name: str) -> bool:
        """Whether a program that was started still runs."""
        process = self._programs.get(name)
        return process is not None and process.poll() is None

    def log(self, name: str) -> str:
        """What a program has said so far."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_containerd(self) -> None:
        """Start the container runtime, with the image of Pods' pause container in it."""
        self._write("etc/cni/net.d/10-pods.conflist", json.dumps(_cni(self.place.pods)))
        config = self._write("containerd.toml", _CONTAINERD)
        path = f"{self.containerd}:{os.environ['PATH']}"
        containerd = str(self.containerd / "containerd")
        self.spawn("containerd", containerd, "--config", str(config), environment={"PATH": path})
        wait_until(lambda: self.ctr("version", check=False), f"containerd of {self.name} answers", 30, 0.2)
        archive = self.directory / "pause.tar"
        if not archive.exists():
            config_of_pause = {"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sleep", "2147483647"]}
            busybox_archive(archive, PAUSE, config_of_pause)
            self.import_image(archive)

    def ctr(self, *arguments: str, check: bool = True) -> str:
        """containerd's own tool."""
        return self.run(str(self.containerd / "ctr"), "--namespace", "k8s.io", *arguments, check=check)

    def import_image(self, archive: Path) -> None:
        """Put an archive's images into containerd."""
        self.ctr("images", "import", "--no-unpack", str(archive))

    def start_kubelet(self) -> None:
        """Start the kubelet; it registers its node by itself."""
        self.kubeconfig = self.api.write_kubeconfig(f"system:node:{self.name}", ["system:nodes"])
        config = {**_kubelet(self.api, self.place.number), **self.kubelet_config}
        labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
        for controller in _CGROUPS.iterdir():
            if controller.is_dir() and not controller.is_symlink() and controller.name != "unified":
                _make_cgroup(controller, f"kvt-{self.place.number}")
        self.spawn(
            "kubelet",
            str((assets() or Path()) / "kubelet"),
            f"--config={self._write('kubelet.yaml', yaml.safe_dump(config))}",
            f"--kubeconfig={self.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.place.address}",
            *([f"--node-labels={labels}"] if labels else []),
        )

    def power_off(self) -> None:
        """End everything on the node at once, without a word to anybody."""
        if self._init is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._init.wait(30)
        self._init, self._pid = None, 0
        for process in self._programs.values():
            process.wait(30)
        self._programs.clear()
        self._unplug()

    def _unplug(self) -> None:
        # The kernel takes a namespace's links away when it has the time.
        subprocess.run(["ip", "link", "delete", f"kvt-{self.place.number}"], capture_output=True, check=False)

    def remove(self) -> None:
        """Switch it off and remove all that it has left."""
        self.power_off()
        for controller in _CGROUPS.iterdir():
            remains = controller / f"kvt-{self.place.number}"
            for directory, _, _ in os.walk(remains, topdown=False):
                with suppress(OSError):
                    os.rmdir(directory)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


def missing_runtime() -> list[str]:
    """What of a node's runtime is not on this machine."""
    wanted = ("/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/lib/cni/bridge", "/usr/lib/cni/host-local")
    missing = [path for path in wanted if not Path(path).is_file()]
    # Nodes have not been tried with version 2.
    return missing if (_CGROUPS / "memory").is_dir() else [*missing, "cgroup v1"]


def make_bridge() -> None:
    """The switch between nodes, with the control plane's address on it."""
    remove_bridge()
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def remove_bridge() -> None:
    """Take it away, and with it the routes to Pods."""
    subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def _make_cgroup(controller: Path, name: str) -> None:
    directory = controller / name
    directory.mkdir(exist_ok=True)
    if controller.name == "cpuset":
        for file in ("cpuset.cpus", "cpuset.mems"):
            (directory / file).write_text((controller / file).read_text())


def _cni(pods: str) -> dict[str, Any]:
    ipam = {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "mtu": 1450, "ipam": ipam}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


_CONTAINERD = f"""
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def _kubelet(api: RealApiServer, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(api.authority.ca)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/kvt-{number}",
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": ["10.0.0.10"],
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 10,
        "syncFrequency": "10s",
        # A test machine's disk may be almost full; images that were imported by hand must stay.
        "evictionHard": {"memory.available": "10Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": False,
        "shutdownGracePeriod": "0s",
    }
