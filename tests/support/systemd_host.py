"""A Debian with a real systemd as its init, in namespaces of its own: what a unit does is seen under the real thing.

Needs root, mmdebstrap and systemd-nspawn. The tree is made once and kept in /var/cache/kvedge-tests; each host is an
overlay over it. systemd-nspawn cannot reboot where it is not registered, so a reboot is a power-off and a boot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import wait_until

TREES = Path(os.environ.get("KVEDGE_TEST_CACHE", "/var/cache/kvedge-tests")) / "trees"
_PACKAGES = (
    "systemd,systemd-sysv,dbus,kmod,libvirt-daemon-driver-qemu,libvirt0,qemu-system-x86,qemu-utils,iproute2,procps"
)


def missing() -> str:
    """What this machine lacks for such a host; empty when nothing."""
    lacking = [tool for tool in ("mmdebstrap", "systemd-nspawn") if shutil.which(tool) is None]
    return "" if not lacking else f"install {', '.join(lacking)} (mmdebstrap, systemd-container)"


def debian_tree(suite: str = "bookworm", name: str = "host", packages: str = _PACKAGES, *more: str) -> Path:
    """A Debian's file system with these packages, of a host for kvedge unless told; made when it is not there yet.

    `more` are options of mmdebstrap's.
    """
    tree = TREES / f"{name}-{suite}"
    if not tree.is_dir():
        TREES.mkdir(parents=True, exist_ok=True)
        staged = TREES / f"{name}-{suite}.new"
        shutil.rmtree(staged, ignore_errors=True)
        options = ["--variant=minbase", f"--include={packages}", "--aptopt=APT::Install-Recommends false", *more]
        options += [f"--aptopt={path}" for path in sorted(Path("/etc/apt/apt.conf.d").glob("99*"))]
        subprocess.run(["mmdebstrap", "-q", *options, suite, staged], check=True, stdin=subprocess.DEVNULL)
        staged.rename(tree)
    return tree


@dataclass
class SystemdHost:
    """One host; `data` becomes its /var/lib/kvedge, on this machine's disk."""

    directory: Path
    name: str
    tree: Path = field(default_factory=debian_tree)
    process: subprocess.Popen[bytes] | None = None
    leader: int = 0
    guard: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """Its file system."""
        return self.directory / "root"

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.directory / "data"

    def make(self) -> None:
        """The file systems; it does not run yet."""
        for name in ("upper", "work", "root", "data"):
            (self.directory / name).mkdir(parents=True)
        layers = f"lowerdir={self.tree},upperdir={self.directory / 'upper'},workdir={self.directory / 'work'}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, self.root], check=True)
        (self.root / "var/log/journal").mkdir(parents=True, exist_ok=True)

    def boot(self) -> None:
        """Start systemd and wait until it is done."""
        command = ["systemd-nspawn", "-D", self.root, "-M", self.name, "--register=no", "--keep-unit", "--boot"]
        command += ["--private-network", "--capability=all", "--resolv-conf=off", "--console=pipe"]
        command += [f"--bind={self.data}:/var/lib/kvedge", "--bind=/dev/net/tun"]
        environment = os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1"}
        log = (self.directory / "console.log").open("ab")
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        wait_until(self._is_up, "systemd is up", 60)
        # It ends with the tests, however they end: what a killed run leaves running would be in the next one's way.
        self.guard = subprocess.Popen(
            ["sh", "-c", f"read never; kill -KILL {self.leader}"], stdin=subprocess.PIPE, start_new_session=True
        )

    def run(self, *command: str, check: bool = True, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """A command in it, as root."""
        inside = ["nsenter", "--target", str(self.leader), "--all", *command]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=seconds, check=False)
        if check and done.returncode != 0:
            raise AssertionError(
                f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.journal()}"
            )
        return done

    def out(self, *command: str) -> str:
        """What a command prints."""
        return self.run(*command).stdout.strip()

    def journal(self, *options: str) -> str:
        """The journal's end, or what `options` ask for."""
        chosen = options or ("--lines=40",)
        command = ["nsenter", "--target", str(self.leader), "--all", "journalctl", "--no-pager", *chosen]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout

    def power_off(self, seconds: float = 120) -> float:
        """Shut it down as an operator does; the seconds that it took."""
        assert self.process is not None
        begun = time.monotonic()
        self.run("systemctl", "poweroff", check=False)
        self.process.wait(seconds)
        self.process = None
        self._dismiss_guard()
        return time.monotonic() - begun

    def remove(self) -> None:
        """End and remove it, however it is."""
        self._dismiss_guard()
        if self.process is not None:
            if self.leader:
                subprocess.run(["kill", "-KILL", str(self.leader)], check=False, capture_output=True)
            self.process.kill()
            self.process.wait()
            self.process = None
        # What was mounted below the data directory inside was mounted in its own namespace, and went with it.
        subprocess.run(["umount", "-l", self.root], check=False, capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _dismiss_guard(self) -> None:
        # Before anything else can have its number.
        if self.guard is not None and self.guard.stdin is not None:
            self.guard.kill()
            self.guard.wait()
            self.guard.stdin.close()
            self.guard = None

    def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "console.log").read_text()[-2000:]
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        if not found.stdout.split():
            return False
        self.leader = int(found.stdout.split()[0])
        state = self.run("systemctl", "is-system-running", check=False)
        return state.stdout.strip() in ("running", "degraded")
