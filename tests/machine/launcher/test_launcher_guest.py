"""A guest that really boots, from a container disk and from a kernel: its address, its cloud-init, its agent."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.acpi_tables import a_table
from tests.support.guest import KERNEL_ARGUMENTS, build_guest
from tests.support.launcher_pod import GUEST_ADDRESS, GUEST_MAC, NETWORK, LauncherPod, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

USER_DATA = "#cloud-config\npassword: a pass word\nchpasswd: { expire: False }\nhostname: smoke\n"
LICENCE = a_table(b"SLIC")
# Takes each CPU that comes, as udev does elsewhere, and says which there are.
COUNTING = """#!/bin/sh
(while sleep 1; do
    for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ -e "$cpu" ] && echo 1 >"$cpu"; done
    echo "cpus: $(cat /sys/devices/system/cpu/online) " >/dev/console
done) >/dev/null 2>&1 &
"""
# Takes the memory that comes into use, as udev does elsewhere, and says how much there is.
WEIGHING = """#!/bin/sh
echo online_movable >/sys/devices/system/memory/auto_online_blocks
(while sleep 1; do
    echo "memory: $(awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo) MiB" >/dev/console
done) >/dev/null 2>&1 &
"""
DEAF = "#!/bin/sh\ntouch /run/ignore-power-button\n"


@pytest.fixture(scope="session")
def disk_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A container disk's tree with the bootable guest in it."""
    tree = tmp_path_factory.mktemp("disk-image")
    tree.chmod(0o755)
    (tree / "disk").mkdir()
    shutil.copyfile(build_guest().disk, tree / "disk" / "guest.qcow2")
    return tree


@pytest.fixture(scope="session")
def uefi_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A container disk's tree with a guest that boots on UEFI."""
    tree = tmp_path_factory.mktemp("uefi-image")
    tree.chmod(0o755)
    (tree / "disk").mkdir()
    shutil.copyfile(build_guest(uefi=True).disk, tree / "disk" / "guest.qcow2")
    return tree


@pytest.fixture(scope="session")
def kernel_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel image's tree; its guest has the agent."""
    tree = tmp_path_factory.mktemp("kernel-image")
    tree.chmod(0o755)
    guest = build_guest(agent=True)
    (tree / "boot").mkdir()
    shutil.copyfile(guest.kernel, tree / "boot" / "vmlinuz")
    shutil.copyfile(guest.initrd, tree / "boot" / "initrd")
    return tree


@pytest.fixture
def disk_pod(tmp_path: Path, seed: Path, disk_image: Path) -> Iterator[LauncherPod]:
    """A Pod with the guest's container disk as volume 0."""
    with launcher_pod(tmp_path, seed=seed, images={"disk_0": disk_image}) as pod:
        yield pod


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory, seed: Path, disk_image: Path) -> Iterator[LauncherPod]:
    """A Pod whose guest has booted; each test that asks for it leaves it running."""
    with launcher_pod(tmp_path_factory.mktemp("guest"), seed=seed, images={"disk_0": disk_image}) as pod:
        secret = pod.directory / "private" / "secret" / "licence"
        secret.mkdir(parents=True)
        (secret / "slic.bin").write_bytes(LICENCE)
        vmi = disk_vmi(pod)
        vmi["spec"]["domain"]["firmware"]["acpi"] = {"slicNameRef": "licence"}
        vmi["spec"]["volumes"].append({"name": "licence", "secret": {"secretName": "licence"}})
        pod.sync(vmi, network=True)
        pod.guest_facts()
        yield pod


def disk_vmi(pod: LauncherPod, user_data: str = USER_DATA) -> dict[str, Any]:
    """Three virtio disks, as KubeVirt's users have them: container disk, empty disk, cloud-init."""
    disk = {"bus": "virtio"}
    return pod.vmi(
        domain={
            "memory": {"guest": "128Mi"},
            "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223", "serial": "kv-1"},
            "devices": {
                "disks": [
                    {"name": "root", "disk": disk},
                    {"name": "scratch", "disk": disk},
                    {"name": "seed", "disk": disk},
                ],
                "interfaces": NETWORK["interfaces"],
            },
        },
        networks=NETWORK["networks"],
        volumes=[
            {"name": "root", "containerDisk": {"image": "guest"}},
            {"name": "scratch", "emptyDisk": {"capacity": "2Gi"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": user_data}},
        ],
    )


def kernel_vmi(pod: LauncherPod) -> dict[str, Any]:
    """Booted by a kernel from an image, without any disk."""
    container = {"image": "kernel", "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd"}
    return pod.vmi(
        domain={
            "memory": {"guest": "192Mi"},
            "firmware": {"kernelBoot": {"kernelArgs": KERNEL_ARGUMENTS, "container": container}},
            "devices": {"interfaces": NETWORK["interfaces"]},
        },
        networks=NETWORK["networks"],
    )


def test_a_container_disk_boots_and_answers_on_its_leased_address(guest: LauncherPod) -> None:
    status = guest.call("GetDomain")
    assert [(disk.name, disk.target) for disk in status.disks] == [("root", "vda"), ("scratch", "vdb"), ("seed", "vdc")]
    assert status.uuid == "5d307ca9-b3ef-428c-8861-06e72d69f223"
    leased = [(entry.interface, entry.mac, list(entry.addresses), entry.source) for entry in status.addresses]
    assert leased == [("default", GUEST_MAC, [GUEST_ADDRESS], "lease")]

    facts = guest.guest_facts()
    assert facts["address"] == GUEST_ADDRESS
    assert facts["dhcp_mtu"] == "1400"
    assert facts["dhcp_router"] == "10.77.0.1"
    assert facts["dhcp_dns"] == "10.77.0.53"
    assert facts["mac"] == GUEST_MAC
    assert facts["product_uuid"] == "5d307ca9-b3ef-428c-8861-06e72d69f223"
    assert facts["disk_vdb"] == str(2 << 30)
    assert facts["cloud_init"] == "NoCloud"
    assert facts["instance_id"] == "5d307ca9-b3ef-428c-8861-06e72d69f223"
    assert facts["user_data_sha256"] == hashlib.sha256(USER_DATA.encode()).hexdigest()
    assert facts["hostname"] == "smoke"


def test_what_the_guest_prints_is_logged_though_nobody_looks(guest: LauncherPod) -> None:
    wait_until(lambda: b"kvedge-guest: ready" in _serial_log(guest), "the guest's words in the log", seconds=60)


def test_who_has_the_password_may_log_in_on_the_console_and_finds_the_licence(guest: LauncherPod) -> None:
    console = guest.console()
    console.send("")
    console.expect(b"login: ")
    console.send("guest")
    console.expect(b"assword: ")
    console.send("a pass word")
    console.expect(b"$ ")
    console.send("cd /sys/firmware/acpi/tables && ls -l | grep SLIC")
    console.expect(f" {len(LICENCE)} ".encode())
    console.close()


def test_cloud_init_data_is_readable_by_the_guest_alone(guest: LauncherPod) -> None:
    (iso,) = guest.directory.glob("ephemeral/cloud-init-data/default/web/noCloud.iso")
    assert iso.stat().st_mode & 0o077 == 0
    assert "a pass word" not in guest.log


def test_a_guest_keeps_running_while_its_launcher_is_replaced(guest: LauncherPod) -> None:
    boot = guest.guest_facts()["boot_id"]
    before = guest.launcher_pid()
    kill(before)
    guest.channel.close()
    guest.channel = None
    wait_until(lambda: _replaced(guest, before), "another launcher")
    assert guest.guest_facts()["boot_id"] == boot
    status = guest.sync(disk_vmi(guest), network=True)
    assert [list(entry.addresses) for entry in status.addresses] == [[GUEST_ADDRESS]]


def test_a_reset_boots_the_guest_again_in_the_same_qemu(guest: LauncherPod) -> None:
    boot = guest.guest_facts()["boot_id"]
    (qemu,) = guest.qemu_pids()
    guest.call("Reset")
    wait_until(lambda: guest.guest_facts()["boot_id"] != boot, "another boot", seconds=60, pause=0.5)
    assert guest.qemu_pids() == [qemu]


def test_a_soft_reboot_presses_the_button_and_boots_again(guest: LauncherPod) -> None:
    boot = guest.guest_facts()["boot_id"]
    (qemu,) = guest.qemu_pids()
    assert guest.call("SoftReboot").state in (m.DOMAIN_STATE_RUNNING, m.DOMAIN_STATE_SHUTTING_DOWN)
    wait_until(lambda: guest.guest_facts()["boot_id"] != boot, "another boot", seconds=60, pause=0.5)
    assert guest.qemu_pids() == [qemu]


def test_an_image_is_unchanged_when_its_guest_has_shut_down(disk_pod: LauncherPod, disk_image: Path) -> None:
    image = disk_image / "disk" / "guest.qcow2"
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    disk_pod.sync(disk_vmi(disk_pod), network=True)
    disk_pod.guest_facts()
    first = disk_pod.launcher_pid()
    kill(first)
    disk_pod.channel.close()
    disk_pod.channel = None
    wait_until(lambda: _replaced(disk_pod, first), "another launcher")
    disk_pod.sync(disk_vmi(disk_pod), network=True)
    disk_pod.call("Pause")
    # A paused guest goes on, to shut down: also by a launcher that has not started it.
    disk_pod.call("Shutdown")
    assert disk_pod.wait_state(m.DOMAIN_STATE_SHUTOFF).reason == m.DOMAIN_REASON_SHUTDOWN
    disk_pod.call("Delete")
    assert disk_pod.wait_exit() == 0
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before


def test_the_grace_period_is_for_guests_that_do_not_listen(tmp_path: Path, seed: Path, disk_image: Path) -> None:
    images = {"disk_0": disk_image}
    with launcher_pod(tmp_path, seed=seed, images=images, options=["--grace-period-seconds", "2"]) as pod:
        pod.sync(disk_vmi(pod, DEAF), network=True)
        assert pod.guest_facts()["user_data_exit"] == "0"
        kill(pod.monitor_pid(), signal.SIGTERM)
        assert pod.wait_state(m.DOMAIN_STATE_SHUTOFF).reason == m.DOMAIN_REASON_DESTROYED


def test_sigterm_shuts_a_guest_down_that_listens(disk_pod: LauncherPod) -> None:
    disk_pod.sync(disk_vmi(disk_pod), network=True)
    disk_pod.guest_facts()
    kill(disk_pod.monitor_pid(), signal.SIGTERM)
    assert disk_pod.wait_state(m.DOMAIN_STATE_SHUTOFF).reason == m.DOMAIN_REASON_SHUTDOWN
    disk_pod.call("Delete")
    assert disk_pod.wait_exit() == 0


def test_a_run_that_the_host_ended_as_it_goes_down_has_failed(disk_pod: LauncherPod) -> None:
    disk_pod.sync(disk_vmi(disk_pod), network=True)
    disk_pod.guest_facts()
    # As node_shutdown does; by then no handler is there.
    (disk_pod.directory / "public" / "host-shutdown").touch()
    kill(disk_pod.monitor_pid(), signal.SIGTERM)
    # Nobody watches: it may be gone before anybody could ask.
    assert disk_pod.wait_exit() == 1
    assert disk_pod.final()["reason"] == "DOMAIN_REASON_SHUTDOWN"


def test_a_guest_that_powers_off_while_its_launcher_is_gone_has_shut_down(disk_pod: LauncherPod) -> None:
    pod = disk_pod
    pod.sync(disk_vmi(pod), network=True)
    pod.guest_facts()
    before = pod.launcher_pid()
    pod.call("Shutdown")
    kill(before)
    pod.channel.close()
    pod.channel = None
    wait_until(lambda: _replaced(pod, before), "another launcher")
    assert pod.wait_state(m.DOMAIN_STATE_SHUTOFF).reason == m.DOMAIN_REASON_SHUTDOWN


def test_a_kernel_boots_and_its_agent_is_asked(tmp_path: Path, seed: Path, kernel_image: Path) -> None:
    with launcher_pod(tmp_path, seed=seed, images={"kernel-boot": kernel_image}) as pod:
        pod.sync(kernel_vmi(pod), network=True)
        status = wait_until(lambda: _with_agent(pod), "the agent's addresses", seconds=60, pause=0.2)
        assert status.agent_connected
        told = {entry.source: entry for entry in status.addresses}
        assert told["guest-agent"].interface == "default"
        assert told["guest-agent"].guest_name == "eth0"
        assert GUEST_ADDRESS in told["guest-agent"].addresses
        info = pod.call("GetGuestInfo")
        assert info.os_id == "kvedge-guest"
        assert info.hostname == pod.guest_facts()["hostname"]
        assert info.machine == "x86_64"
        assert info.kernel_release
        assert info.agent_version[:1].isdigit()
        # The agent is asked first; the power button would be heard as well.
        pod.call("Shutdown")
        assert pod.wait_state(m.DOMAIN_STATE_SHUTOFF).reason == m.DOMAIN_REASON_SHUTDOWN
        assert b"shutdown asked by the agent" in _serial_log(pod)


def test_a_guest_gets_sockets_while_it_runs_and_no_more_than_it_has_room_for(
    tmp_path: Path, seed: Path, disk_image: Path
) -> None:
    with launcher_pod(tmp_path, seed=seed, images={"disk_0": disk_image}) as pod:
        vmi = disk_vmi(pod, COUNTING)
        vmi["spec"]["domain"]["cpu"] = cpu = {"sockets": 1, "cores": 1, "threads": 1, "maxSockets": 3}
        pod.sync(vmi, network=True)
        pod.guest_facts()
        (qemu,) = pod.qemu_pids()
        assert pod.call("GetDomain").vcpus == 1
        cpu["sockets"] = 2
        pod.sync(vmi, network=True)
        wait_until(lambda: pod.call("GetDomain").vcpus == 2, "another vCPU")
        wait_until(lambda: b"cpus: 0-1 " in _serial_log(pod), "the guest's other CPU", seconds=60, pause=0.5)
        cpu["sockets"] = 4
        pod.sync(vmi, network=True)
        trouble = wait_until(lambda: pod.call("GetDomain").cpu_trouble, "why there are no more")
        assert trouble == "the guest was started with room for 3 vCPUs, and is to have 4"
        assert pod.call("GetDomain").vcpus == 2
        assert pod.qemu_pids() == [qemu]


def _weigh(pod: LauncherPod) -> int:
    """How much memory the guest last said that it has, in MiB."""
    found = re.findall(rb"memory: (\d+) MiB", _serial_log(pod))
    return int(found[-1]) if found else 0


def test_a_guests_memory_grows_and_shrinks_back_while_it_runs(tmp_path: Path, seed: Path, disk_image: Path) -> None:
    gib, mib = 1 << 30, 1 << 20
    with launcher_pod(tmp_path, seed=seed, images={"disk_0": disk_image}) as pod:
        vmi = disk_vmi(pod, WEIGHING)
        vmi["spec"]["domain"]["memory"] = memory = {"guest": "1Gi", "maxGuest": "2Gi"}
        pod.sync(vmi, network=True)
        pod.guest_facts()
        (qemu,) = pod.qemu_pids()
        status = pod.call("GetDomain")
        assert (status.memory_boot_bytes, status.memory_requested_bytes, status.memory_bytes) == (gib, gib, gib)
        before = wait_until(lambda: _weigh(pod), "the guest says how much it has", seconds=60, pause=0.5)
        memory["guest"] = "1536Mi"
        pod.sync(vmi, network=True)
        wait_until(lambda: pod.call("GetDomain").memory_requested_bytes == 1536 * mib, "it is asked to have more")
        wait_until(lambda: pod.call("GetDomain").memory_bytes == 1536 * mib, "it has more", seconds=120, pause=0.5)
        wait_until(lambda: _weigh(pod) == before + 512, "the guest sees more", seconds=60, pause=0.5)
        memory["guest"] = "1Gi"
        pod.sync(vmi, network=True)
        wait_until(lambda: pod.call("GetDomain").memory_bytes == gib, "it has given it back", seconds=120, pause=0.5)
        wait_until(lambda: _weigh(pod) == before, "the guest sees less", seconds=60, pause=0.5)
        memory["guest"] = "3Gi"
        pod.sync(vmi, network=True)
        trouble = wait_until(lambda: pod.call("GetDomain").memory_trouble, "why there is no more")
        assert trouble == "the guest was started with room for 2048 MiB of memory, and is to have 3072 MiB"
        assert pod.qemu_pids() == [qemu]


def test_a_paused_start_waits_for_the_unpause(disk_pod: LauncherPod) -> None:
    vmi = disk_vmi(disk_pod)
    vmi["spec"]["startStrategy"] = "Paused"
    status = disk_pod.sync(vmi, network=True)
    assert (status.state, status.reason) == (m.DOMAIN_STATE_PAUSED, m.DOMAIN_REASON_USER)
    assert disk_pod.call("Unpause").state == m.DOMAIN_STATE_RUNNING


def test_a_guest_that_never_ran_is_ended_at_once_and_has_not_crashed(disk_pod: LauncherPod) -> None:
    vmi = disk_vmi(disk_pod)
    vmi["spec"]["startStrategy"] = "Paused"
    disk_pod.sync(vmi, network=True)
    ended = disk_pod.call("Shutdown")
    assert (ended.state, ended.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_SHUTDOWN)


def test_a_guest_that_was_started_paused_and_has_run_is_one_that_was_killed(disk_pod: LauncherPod) -> None:
    vmi = disk_vmi(disk_pod)
    vmi["spec"]["startStrategy"] = "Paused"
    disk_pod.sync(vmi, network=True)
    disk_pod.call("Unpause")
    disk_pod.call("Pause")
    ended = disk_pod.call("Kill")
    assert (ended.state, ended.reason) == (m.DOMAIN_STATE_SHUTOFF, m.DOMAIN_REASON_DESTROYED)


def test_a_guest_whose_disk_cannot_grow_is_paused_and_says_so(tmp_path: Path, seed: Path, disk_image: Path) -> None:
    small = "mount -t tmpfs -o size=3m,uid=107 small /run/libvirt"
    write = "#!/bin/sh\n(dd if=/dev/zero of=/dev/vdb bs=1M count=16; sync) >/dev/null 2>&1 &\n"
    with launcher_pod(tmp_path, seed=seed, images={"disk_0": disk_image}, before=small) as pod:
        pod.sync(disk_vmi(pod, write), network=True)
        paused = pod.wait_state(m.DOMAIN_STATE_PAUSED, seconds=60)
        assert paused.reason == m.DOMAIN_REASON_IO_ERROR
        assert "I/O error" in paused.message
        assert pod.call("Kill").reason == m.DOMAIN_REASON_DESTROYED


def test_a_guest_boots_on_uefi_keeps_its_variables_and_finds_its_tpm(
    tmp_path: Path, seed: Path, uefi_image: Path
) -> None:
    with launcher_pod(tmp_path, seed=seed, images={"disk_0": uefi_image}) as pod:
        pod.sync(uefi_vmi(pod, secure=False), network=True)
        facts = pod.guest_facts()
        assert (facts["firmware"], facts["secure_boot"], facts["tpm"]) == ("uefi", "0", "2")
        (variables,) = pod.directory.glob("private/*/web_VARS.fd")
        assert variables.stat().st_size > 0


def test_secure_boot_lets_a_signed_loader_start(tmp_path: Path, seed: Path, uefi_image: Path) -> None:
    # As far as the emulated processor goes: its system management mode does not survive the kernel's start (QEMU 7.2).
    with launcher_pod(tmp_path, seed=seed, images={"disk_0": uefi_image}) as pod:
        pod.sync(uefi_vmi(pod, secure=True), network=True)
        (qemu,) = pod.qemu_pids()
        assert b"driver=cfi.pflash01,property=secure,value=on" in Path(f"/proc/{qemu}/cmdline").read_bytes()
        wait_until(lambda: b"Welcome to GRUB!" in _serial_log(pod), "the signed loader", seconds=60)


def uefi_vmi(pod: LauncherPod, *, secure: bool) -> dict[str, Any]:
    """The guest with three disks on UEFI."""
    vmi = disk_vmi(pod)
    domain = vmi["spec"]["domain"]
    domain["firmware"]["bootloader"] = {"efi": {"secureBoot": secure}}
    domain["devices"]["tpm"] = {}
    domain["features"] = {"smm": {"enabled": secure}}
    domain["memory"]["guest"] = "256Mi"
    domain["devices"]["disks"][0]["bootOrder"] = 1
    return vmi


def _serial_log(pod: LauncherPod) -> bytes:
    path = pod.directory / "private" / pod.uid / "virt-serial0-log"
    return path.read_bytes() if os.path.exists(path) else b""


def _with_agent(pod: LauncherPod) -> Any:
    status = pod.call("GetDomain")
    return status if any(entry.source == "guest-agent" for entry in status.addresses) else None


def _replaced(pod: LauncherPod, before: int) -> bool:
    try:
        return pod.launcher_pid() != before
    except OSError:
        return False
