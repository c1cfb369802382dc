"""The one file installed on a Debian whose init is a real systemd: restarts, power-off, upgrades, removal.

One host for the whole module, as it is; the tests stand in the order of an installation's life.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.altered_program import alter_program
from tests.support.built_program import built_program
from tests.support.guest import build_guest
from tests.support.systemd_host import SystemdHost, missing
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.incremental,
    pytest.mark.machine,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing() or "everything is there"),
]

IMAGE = "local/guest:1"
VM = f"""
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {{name: web}}
spec:
  runStrategy: RerunOnFailure
  template:
    metadata: {{annotations: {{kvedge.io/autostart-order: "10", kvedge.io/autostart-delay: "2"}}}}
    spec:
      domain:
        memory: {{guest: 96Mi}}
        devices:
          disks: [{{name: root, disk: {{bus: virtio}}}}]
          interfaces: [{{name: default, bridge: {{}}}}]
      networks: [{{name: default, pod: {{}}}}]
      volumes: [{{name: root, containerDisk: {{image: "{IMAGE}"}}}}]
"""
VERSION_FILE = "lib/kvedge/__init__.pyc"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdHost]:
    found = SystemdHost(tmp_path_factory.mktemp("host") / "h", f"kvedge-{id(object()) % 100_000}")
    found.make()
    (found.root / "root/kvedge").write_bytes(built_program().read_bytes())
    (found.root / "root/kvedge").chmod(0o755)
    shutil.copyfile(build_guest().disk, found.root / "root/disk.qcow2")
    (found.root / "root/vm.yaml").write_text(VM)
    later = VM.replace("name: web", "name: later").replace('order: "10"', 'order: "20"')
    (found.root / "root/later.yaml").write_text(later)
    found.boot()
    yield found
    found.remove()


def wait_running(host: SystemdHost) -> str:
    """The UID of the VM's run, once its guest has its address."""

    def look() -> str:
        done = host.run("kvedge", "get", "vmi", "web", "-o", "json", check=False)
        vmi = json.loads(done.stdout) if done.returncode == 0 else {}
        status = vmi.get("status", {})
        ready = status.get("phase") == "Running" and any(nic.get("ipAddress") for nic in status.get("interfaces", []))
        return str(vmi["metadata"]["uid"]) if ready else ""

    return wait_until(look, "the VM runs", 60)


def qemu(host: SystemdHost) -> str:
    """The PIDs of its QEMUs, as the host sees them."""
    return host.run("pgrep", "-f", "guest=default_web", check=False).stdout.strip()


def pods_of(host: SystemdHost) -> list[Any]:
    found: list[Any] = json.loads(host.out("kvedge", "get", "pods", "-o", "json"))["items"]
    return [pod for pod in found if pod["status"]["phase"] == "Running"]


def main_pid(host: SystemdHost) -> str:
    return host.out("systemctl", "show", "--value", "--property=MainPID", "kvedge.service")


def test_it_is_installed_and_healthy_and_a_second_run_changes_nothing(host: SystemdHost) -> None:
    said = host.out("/root/kvedge", "install")
    assert "installed: kubeconfig /etc/kvedge/kubeconfig" in said
    assert host.out("stat", "-c", "%a %U", "/etc/kvedge/kubeconfig") == "600 root"
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    before = main_pid(host)
    assert "unchanged" in host.out("/root/kvedge", "install")
    assert main_pid(host) == before
    assert host.out("systemctl", "is-enabled", "kvedge.service", "kvedge-guests.service", "kvedge.target") == "\n".join(
        ["enabled"] * 3
    )


def test_the_status_line_says_what_the_node_does(host: SystemdHost) -> None:
    host.run("kvedge", "image", "import", "/root/disk.qcow2", "--name", IMAGE)
    host.run("kvedge", "apply", "-f", "/root/vm.yaml")
    wait_running(host)
    line = host.out("systemctl", "show", "--value", "--property=StatusText", "kvedge.service")
    assert line == "serving; 1 Pod on this node"


def test_a_vm_is_in_a_scope_of_its_own_below_one_slice(host: SystemdHost) -> None:
    wait_running(host)
    (scope,) = host.out("systemctl", "list-units", "--plain", "--no-legend", "kvedge-pod-*.scope").splitlines()
    name = scope.split()[0]
    assert host.out("systemctl", "show", "--value", "--property=Slice", name) == "kvedge-kvedge0.slice"
    assert f"/kvedge.slice/kvedge-kvedge0.slice/{name}" in host.out("cat", f"/proc/{qemu(host)}/cgroup")
    # What kept the scope until the guest was there has gone: monitor, launcher, holder and QEMU are left.
    listed = host.out("cat", f"/sys/fs/cgroup/kvedge.slice/kvedge-kvedge0.slice/{name}/cgroup.procs").split()
    names = {host.out("cat", f"/proc/{pid}/comm") for pid in listed}
    assert "cat" not in names
    assert "qemu-system-x86" in names


def test_a_box_with_guests_does_not_become_a_node_of_a_cluster(host: SystemdHost) -> None:
    wait_running(host)
    done = host.run("/root/kvedge", "install", "--role", "server", check=False)
    assert done.returncode == 5
    assert "installed as standalone, and VMs run on it: default/web" in done.stderr


@pytest.mark.parametrize(
    "how", [("restart",), ("kill", "--kill-whom=main", "--signal=KILL")], ids=["restart", "kill -9"]
)
def test_a_daemon_that_ends_leaves_the_guest_alone(host: SystemdHost, how: tuple[str, ...]) -> None:
    uid, process, daemon = wait_running(host), qemu(host), main_pid(host)
    host.run("systemctl", *how, "kvedge.service")
    wait_until(lambda: main_pid(host) not in ("0", daemon), "another daemon runs")
    wait_until(lambda: host.run("kvedge", "status", "--strict", check=False).returncode == 0, "it is healthy")
    assert (wait_running(host), qemu(host)) == (uid, process)


def test_a_daemon_that_hangs_is_noticed_by_the_watchdog(host: SystemdHost) -> None:
    host.run("mkdir", "-p", "/run/systemd/system/kvedge.service.d")
    host.run("sh", "-c", "printf '[Service]\\nWatchdogSec=10\\n' > /run/systemd/system/kvedge.service.d/fast.conf")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "kvedge.service")
    hung, process = main_pid(host), qemu(host)
    host.run("kill", "-STOP", hung)
    wait_until(lambda: main_pid(host) not in ("0", hung), "systemd has started another", 60)
    host.run("rm", "-r", "/run/systemd/system/kvedge.service.d")
    host.run("systemctl", "daemon-reload")
    wait_until(lambda: host.run("kvedge", "status", "--strict", check=False).returncode == 0, "it is healthy", 60)
    journal = host.journal("--unit=kvedge.service")
    assert "Watchdog timeout" in journal
    assert "Fatal Python error: Aborted" in journal, "it says where its threads were"
    assert qemu(host) == process


def test_the_unit_is_as_closed_as_a_node_can_be(host: SystemdHost) -> None:
    said = host.out("systemd-analyze", "security", "--no-pager", "kvedge.service")
    score = re.search(r"Overall exposure level for kvedge.service: ([0-9.]+)", said)
    assert score is not None
    # What is left open is what nodes do: namespaces, mounts, devices, networks, other users' processes.
    assert float(score.group(1)) <= 8.0


def test_a_power_off_shuts_guests_down_before_all_else_and_they_run_again_after_the_boot(
    host: SystemdHost,
) -> None:
    uid = wait_running(host)
    wait_until(
        lambda: "login" in host.run("kvedge", "console", "--log", "web", check=False).stdout, "the guest is up", 60
    )
    address = re.search(r"10\.99\.\d+\.\d+", host.out("kvedge", "get", "vmi", "web"))
    host.run("kvedge", "apply", "-f", "/root/later.yaml")
    wait_until(lambda: "Running" in host.out("kvedge", "get", "vmi", "later"), "the other VM runs", 60)
    host.power_off()
    host.boot()
    journal = host.journal("--boot=-1", "--output=short-monotonic")
    steps = [
        "Stopped kvedge.service",
        "Stopping kvedge-guests.service",
        "shutting down default/virt-launcher-web-",
        " is down",
        "Stopped kvedge-guests.service",
        "Stopped target local-fs.target",
    ]
    found = [journal.rfind(step) for step in steps]
    assert -1 not in found, journal[-5000:]
    assert found == sorted(found)
    assert "is killed" not in journal
    wait_until(lambda: wait_running(host) != uid, "another run has begun", 60)
    assert address is not None
    assert address.group() in host.out("kvedge", "get", "vmi", "web")
    wait_until(lambda: "Running" in host.out("kvedge", "get", "vmi", "later"), "the other VM runs", 60)
    pods = {item["metadata"]["labels"]["vm.kubevirt.io/name"]: item for item in pods_of(host)}
    first = pods["web"]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    second = pods["later"]["status"]["startTime"]
    # Its template asks for two seconds of lead; times have whole seconds.
    assert datetime.fromisoformat(second) - datetime.fromisoformat(first) >= timedelta(seconds=1)
    host.run("kvedge", "delete", "vm", "later")
    wait_until(lambda: host.run("pgrep", "-f", "guest=default_later", check=False).stdout == "", "it is gone", 60)


def test_an_upgrade_leaves_vms_as_they_are_and_the_new_version_manages_them(host: SystemdHost) -> None:
    alter_program(built_program(), host.root / "root/newer", {VERSION_FILE: (b"0.1.0", b"0.1.1")})
    uid, process = wait_running(host), qemu(host)
    said = host.out("/root/newer", "upgrade")
    assert "upgraded" in said
    assert "0.1.1" in host.out("kvedge", "version", "--client")
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    assert (wait_running(host), qemu(host)) == (uid, process)
    host.run("kvedge", "pause", "vmi", "web")
    host.run("kvedge", "unpause", "vmi", "web")
    # The launcher of the version before still runs from its own tree.
    trees = host.out("ls", "/var/lib/kvedge/data").split()
    assert len([name for name in trees if re.fullmatch(r"[0-9a-f]{64}", name)]) == 2


def test_a_version_that_does_not_become_ready_gives_way_to_the_one_before(host: SystemdHost) -> None:
    changes = {
        VERSION_FILE: (b"0.1.0", b"0.1.2"),
        # A name that is not there: this version ends before it is ready.
        "lib/kvedge/standalone/standalone_services.pyc": (b"EmbeddedApi", b"EmbeddedApj"),
    }
    alter_program(built_program(), host.root / "root/broken", changes)
    uid, process = wait_running(host), qemu(host)
    done = host.run("/root/broken", "upgrade", check=False, seconds=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the version before runs again" in done.stderr
    assert "0.1.1" in host.out("kvedge", "version", "--client")
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    assert (wait_running(host), qemu(host)) == (uid, process)


def test_an_unhealthy_installation_is_not_upgraded(host: SystemdHost) -> None:
    alter_program(built_program(), host.root / "root/newest", {VERSION_FILE: (b"0.1.0", b"0.1.3")})
    host.run("systemctl", "stop", "kvedge.service")
    done = host.run("/root/newest", "upgrade", check=False)
    host.run("systemctl", "start", "kvedge.service")
    assert done.returncode == 1
    assert "not healthy" in done.stderr
    assert "0.1.1" in host.out("kvedge", "version", "--client")


@pytest.mark.parametrize("after", ["0.2", "0.5", "0.9"])
def test_an_upgrade_that_is_killed_is_simply_run_again(host: SystemdHost, after: str) -> None:
    process = qemu(host)
    host.run("timeout", "--signal=KILL", after, "/root/newest", "upgrade", check=False)
    # Whichever it is by now, a whole program is there and systemd can start it.
    assert re.search(r"0\.1\.[013]", host.out("kvedge", "version", "--client"))
    host.run("/root/newest", "upgrade")
    assert "0.1.3" in host.out("kvedge", "version", "--client")
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    assert not host.run("ls", "/var/lib/kvedge/state/upgrade.json", check=False).stdout
    assert qemu(host) == process
    host.run("/root/kvedge", "upgrade")


def test_a_full_disk_at_the_programs_place_leaves_the_version_before(host: SystemdHost) -> None:
    uid, process, daemon = wait_running(host), qemu(host), main_pid(host)
    # Room for one program, and not for two.
    size = built_program().stat().st_size * 3 // 2
    host.run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", "/usr/local/bin")
    try:
        host.run("cp", "/root/kvedge", "/usr/local/bin/kvedge")
        done = host.run("/root/newest", "upgrade", check=False)
    finally:
        host.run("umount", "/usr/local/bin")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "the version before runs again" in done.stderr
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    assert (wait_running(host), qemu(host), main_pid(host)) == (uid, process, daemon)


def test_a_read_only_place_is_told_and_nothing_is_replaced(host: SystemdHost) -> None:
    daemon = main_pid(host)
    host.run("mount", "--bind", "/usr/local/bin", "/usr/local/bin")
    host.run("mount", "-o", "remount,bind,ro", "/usr/local/bin")
    try:
        done = host.run("/root/newest", "upgrade", check=False)
    finally:
        host.run("umount", "/usr/local/bin")
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr
    assert host.out("kvedge", "status", "--strict").endswith("healthy")
    assert main_pid(host) == daemon


def test_two_at_once_do_not_mix(host: SystemdHost) -> None:
    done = host.run("flock", "/run/kvedge-install.lock", "/root/kvedge", "install", check=False)
    assert done.returncode == 1
    assert "another kvedge install, upgrade or uninstall is at work" in done.stderr


def test_data_of_a_newer_version_is_refused_and_left_alone(host: SystemdHost) -> None:
    host.run("systemctl", "stop", "kvedge.service")
    host.run("sh", "-c", "cp /var/lib/kvedge/state/layout /root/layout; echo 99 > /var/lib/kvedge/state/layout")
    done = host.run("kvedge", "standalone", check=False)
    host.run("sh", "-c", "cp /root/layout /var/lib/kvedge/state/layout")
    host.run("systemctl", "start", "kvedge.service")
    assert done.returncode == 5
    assert "newer" in done.stderr
    wait_running(host)


def test_uninstalling_leaves_the_data_and_nothing_else_and_may_be_run_again(host: SystemdHost) -> None:
    wait_running(host)
    assert "kept: /var/lib/kvedge" in host.out("kvedge", "uninstall")
    assert qemu(host) == ""
    places = "/etc/systemd/system /usr/local/bin /run/netns /etc/modules-load.d"
    left = host.out("sh", "-c", f"ls {places}; ip -o link; mount | grep -v 'type overlay'")
    assert "kvedge" not in left.replace("/var/lib/kvedge", "")
    assert left.count("/var/lib/kvedge") == 1, "only the data directory's own mount is left"
    assert host.run("systemctl", "is-active", "kvedge.service", check=False).stdout.strip() == "inactive"
    host.run("/root/kvedge", "uninstall")
    # What was kept is found again.
    host.run("/root/kvedge", "install")
    wait_running(host)
    host.run("kvedge", "uninstall", "--purge", "--grace", "10", check=False)
    assert host.out("ls", "-A", "/var/lib/kvedge") == ""
    assert not host.run("ls", "/etc/kvedge", check=False).stdout
