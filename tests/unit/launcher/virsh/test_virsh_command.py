# Tests: kvedge/launcher/virsh/virsh_command.py, kvedge/launcher/virsh/description.py, kvedge/launcher/virsh/views.py
# Tests: kvedge/launcher/launcher_call.py
"""`virsh` in the launcher's container against grpc's own server: what it prints, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import grpc
import pytest

from kvedge.launcher.virsh import description
from kvedge.launcher.virsh.virsh_command import main
from kvedge.rpc import launcher_pb2 as m
from kvedge.rpc.launcher_pb2_grpc import LauncherServicer, add_LauncherServicer_to_server

NAME, UUID = "default_web", "6d1f2d1a-0000-4000-8000-000000000001"
DOCUMENT = f"""\
<domain type='qemu' id='1'>
  <name>{NAME}</name>
  <memory unit='KiB'>196608</memory>
  <currentMemory unit='KiB'>131072</currentMemory>
  <vcpu placement='static' current='1'>2</vcpu>
  <os><type>hvm</type></os>
  <devices>
    <disk type='file' device='disk'><source file='/var/run/a.qcow2'/><target dev='vda'/></disk>
    <disk type='block' device='cdrom'><target dev='sda'/></disk>
    <interface type='ethernet'>
      <mac address='02:00:00:00:00:01'/><target dev='tap0'/><model type='virtio-non-transitional'/>
    </interface>
  </devices>
</domain>
"""
Virsh = Callable[..., tuple[int, str, str]]


def running() -> m.DomainDescription:
    return m.DomainDescription(
        name=NAME,
        uuid=UUID,
        id=1,
        state="running",
        reason="booted",
        document=DOCUMENT,
        vcpus=[
            m.VcpuPlace(number=0, host_cpu=1, run_ns=1_500_000_000, may_use="0-1,3"),
            m.VcpuPlace(number=1, waits=True, run_ns=0, may_use="2"),
        ],
        addresses=[
            m.GuestAddress(interface="default", mac="02:00:00:00:00:01", addresses=["10.0.0.2"], source="lease"),
            m.GuestAddress(guest_name="eth0", mac="02:00:00:00:00:01", addresses=["::2"], source="guest-agent"),
        ],
        libvirt_version=11_003_000,
        qemu_version=10_000_002,
        host_cpus=4,
    )


class PlayedLauncher(LauncherServicer):
    """Answers as it is told."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = running()
        self.failure: tuple[grpc.StatusCode, str] | None = None

    def DescribeDomain(self, request: m.DescribeDomainRequest, context: grpc.ServicerContext) -> m.DomainDescription:
        self.asked += 1
        if self.failure is not None:
            context.abort(*self.failure)
        return self.answer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PlayedLauncher, str]]:
    launcher, path = PlayedLauncher(), str(tmp_path_factory.mktemp("virsh") / "sock")
    server = grpc.server(ThreadPoolExecutor(2))
    add_LauncherServicer_to_server(launcher, server)  # type: ignore[no-untyped-call]  # generated
    server.add_insecure_port(f"unix:{path}")
    server.start()
    yield launcher, path
    server.stop(0).wait()


@pytest.fixture
def launcher(served: tuple[PlayedLauncher, str]) -> PlayedLauncher:
    served[0].__init__()  # type: ignore[misc]  # as new for each test
    return served[0]


@pytest.fixture
def virsh(served: tuple[PlayedLauncher, str], capfd: pytest.CaptureFixture[str]) -> Virsh:
    def run(*words: str, socket: str = served[1]) -> tuple[int, str, str]:
        code = main(list(words), socket)
        return code, *capfd.readouterr()

    return run


SHOWN = {
    "list": " Id   Name          State\n-----------------------------\n 1    default_web   running\n\n",
    "--quiet list --persistent --name": f"{NAME}\n",
    "list --name": f"{NAME}\n\n",
    "-q list --uuid --state-running": f"{UUID}\n",
    "-q list --all --id": "1\n",
    "-q list --inactive": "",
    "-q list --transient": "",
    "-q list --state-paused --state-shutoff": "",
    f"domstate {NAME}": "running\n\n",
    "domstate 1 --reason": "running (booted)\n\n",
    f"domid {UUID}": "1\n\n",
    "domuuid --domain 1": f"{UUID}\n\n",
    "domname 1": f"{NAME}\n\n",
    "vcpupin 1": " VCPU   CPU Affinity\n----------------------\n 0      0-1,3\n 1      2\n\n",
    "-q vcpupin 1 1": " 1      2\n",
    "vcpuinfo 1": (
        "VCPU:           0\nCPU:            1\nState:          running\nCPU time:       1.5s\nCPU Affinity:   yy-y\n\n"
        "VCPU:           1\nCPU:            0\nState:          blocked\nCPU time:       0.0s\nCPU Affinity:   --y-\n\n"
    ),
    "vcpucount 1": (
        "maximum      config    2\nmaximum      live      2\ncurrent      config    1\ncurrent      live      1\n\n"
    ),
    "vcpucount 1 --maximum --live": "2\n\n",
    "vcpucount 1 --live --active": "1\n\n",
    "version": (
        "Using library: libvirt 11.3.0\nUsing API: QEMU, within the launcher\nRunning hypervisor: QEMU 10.0.2\n\n"
    ),
    "uri": "qemu:///embed\n\n",
}


def test_a_version_of_qemu_that_is_not_known_is_left_out(launcher: PlayedLauncher, virsh: Virsh) -> None:
    launcher.answer.qemu_version = 0
    assert virsh("version")[1] == "Using library: libvirt 11.3.0\nUsing API: QEMU, within the launcher\n\n"


@pytest.mark.parametrize("words", SHOWN)
def test_it_prints_as_libvirts_does(launcher: PlayedLauncher, virsh: Virsh, words: str) -> None:
    assert virsh(*words.split()) == (0, SHOWN[words], "")


# Of tables the words, without the headings whose width columns have.
ROWS = {
    "domblklist 1": [["vda", "/var/run/a.qcow2"], ["sda", "-"]],
    "domblklist 1 --details": [["file", "disk", "vda", "/var/run/a.qcow2"], ["block", "cdrom", "sda", "-"]],
    "domiflist 1": [["tap0", "ethernet", "-", "virtio-non-transitional", "02:00:00:00:00:01"]],
    "domifaddr 1": [["default", "02:00:00:00:00:01", "ipv4", "10.0.0.2"]],
    "domifaddr 1 --source agent": [["eth0", "02:00:00:00:00:01", "ipv6", "::2"]],
}


@pytest.mark.parametrize("words", ROWS)
def test_tables_have_a_row_for_each_device(launcher: PlayedLauncher, virsh: Virsh, words: str) -> None:
    code, output, said = virsh("-q", *words.split())
    assert (code, [line.split() for line in output.splitlines()], said) == (0, ROWS[words], "")


@pytest.mark.parametrize("word", [NAME, UUID, "1", f"--domain={NAME}"])
def test_the_document_is_libvirts_by_name_uuid_or_id(launcher: PlayedLauncher, virsh: Virsh, word: str) -> None:
    uri = "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock"
    code, output, said = virsh("-r", "-c", uri, "dumpxml", word)
    assert (code, output, said) == (0, DOCUMENT + "\n", "")
    assert ElementTree.fromstring(output).findtext("name") == NAME


def test_dominfo_tells_what_the_document_has(launcher: PlayedLauncher, virsh: Virsh) -> None:
    lines = virsh("dominfo", "1")[1].splitlines()
    assert f"Name:           {NAME}" in lines
    assert {"Max memory:     196608 KiB", "Used memory:    131072 KiB", "CPU(s):         1"} <= set(lines)


def test_a_document_of_hundreds_of_disks_comes_whole(launcher: PlayedLauncher, virsh: Virsh) -> None:
    disk = "<disk><source file='/var/run/kubevirt-private/vmi-disks/some-disk/disk.img'/></disk>\n"
    launcher.answer.document = f"<domain>{disk * 8000}</domain>"
    code, output, _ = virsh("dumpxml", "1")
    assert (code, len(output)) == (0, len(launcher.answer.document) + 2)


def test_a_guest_that_has_ended_is_listed_with_the_others_alone(launcher: PlayedLauncher, virsh: Virsh) -> None:
    launcher.answer.state, launcher.answer.id = "shut off", 0
    del launcher.answer.vcpus[:]
    assert virsh("-q", "list")[1] == ""
    assert virsh("-q", "list", "--all")[1] == f" -    {NAME}   shut off\n"
    assert virsh("-q", "list", "--state-shutoff", "--name")[1] == f"{NAME}\n"
    assert virsh("domid", NAME)[1] == "-\n\n"
    assert virsh("-q", "vcpupin", NAME)[1] == ""
    assert virsh("domstate", "0")[0] == 1


def test_before_the_guest_is_started_there_is_nothing_to_list(launcher: PlayedLauncher, virsh: Virsh) -> None:
    launcher.answer = m.DomainDescription()
    assert virsh("-q", "list", "--all") == (0, "", "")
    code, output, said = virsh("dumpxml", NAME)
    assert (code, output) == (1, "")
    assert said == f"error: failed to get domain '{NAME}': the guest has not been started yet\n"


def test_another_domain_is_not_found_and_the_right_one_is_named(launcher: PlayedLauncher, virsh: Virsh) -> None:
    assert (
        virsh("dumpxml", "default_db")[2]
        == f"error: failed to get domain 'default_db': this launcher's guest is {NAME}\n"
    )


REFUSED = {
    "destroy 1": "kvedge stop NAME --force --grace-period 0",
    "suspend 1": "kvedge pause NAME",
    "edit 1": "kubectl edit vm NAME",
    "vcpupin 1 0 0-1": "kubectl edit vm NAME",
    "vcpupin 1 --vcpu 0 --cpulist=1": "kubectl edit vm NAME",
    "dumpxml 1 --security-info": "secrets are never shown",
    "dumpxml 1 --inactive": "does not know --inactive here",
    "snapshot-create 1": "it knows: list, dumpxml",
    "-x": "it knows: list, dumpxml",
    "dumpxml": "dumpxml needs a domain",
    "domstate 1 2": "unexpected data '2'",
    "domifaddr 1 --source arp": "--source is lease or agent",
    "vcpupin 1 --vcpu x": "--vcpu is a number",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_not_shown_is_refused_before_the_launcher_is_asked(
    launcher: PlayedLauncher, virsh: Virsh, words: str
) -> None:
    code, output, said = virsh(*words.split())
    assert (code, output, launcher.asked) == (1, "", 0)
    assert said.startswith("error: ")
    assert REFUSED[words] in said


@pytest.mark.parametrize("words", [(), ("-q",), ("help",), ("--help",)], ids=str)
def test_without_a_verb_it_says_what_it_knows(virsh: Virsh, words: tuple[str, ...]) -> None:
    code, output, _ = virsh(*words)
    assert code == 0
    assert output.startswith("usage: virsh ")


def test_a_launcher_that_fails_is_quoted(launcher: PlayedLauncher, virsh: Virsh) -> None:
    launcher.failure = (grpc.StatusCode.UNAVAILABLE, "libvirt is busy")
    assert virsh("list") == (1, "", "error: libvirt is busy\n")


def test_a_launcher_of_before_is_said_to_need_a_restart(tmp_path: Path, virsh: Virsh) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"unix:{tmp_path}/old")
    server.start()
    code, output, said = virsh("list", socket=f"{tmp_path}/old")
    server.stop(0).wait()
    assert (code, output) == (1, "")
    assert "once the VM has been restarted" in said


class PlayedTime:
    """Goes by while somebody sleeps, and does something once."""

    def __init__(self, then: Callable[[], object] = bool) -> None:
        self.now = 0.0
        self._then = then

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._then()
        self._then = bool


def test_no_launcher_is_said_so_after_a_while(tmp_path: Path, virsh: Virsh, monkeypatch: pytest.MonkeyPatch) -> None:
    time = PlayedTime()
    monkeypatch.setattr(description, "time", time)
    code, _, said = virsh("list", socket=f"{tmp_path}/none")
    assert code == 1
    assert said.startswith("error: the launcher cannot be asked: ")
    assert 10 <= time.now < 11


def test_a_launcher_that_replaces_itself_is_waited_for(
    tmp_path: Path, served: tuple[PlayedLauncher, str], virsh: Virsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "sock"
    monkeypatch.setattr(description, "time", PlayedTime(lambda: socket.symlink_to(served[1])))
    served[0].__init__()  # type: ignore[misc]  # as new for each test
    code, output, _ = virsh("list", "--name", socket=str(socket))
    assert (code, output) == (0, f"{NAME}\n\n")


def test_it_starts_fast_as_it_loads_nothing_of_note() -> None:
    program = "import sys, runpy; sys.argv = ['kvedge', 'launcher-virsh', 'help']\n"
    program += "try: runpy.run_module('kvedge', run_name='__main__')\nexcept SystemExit: pass\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = set(output.splitlines()[-1].split())
    assert "kvedge.launcher.virsh.virsh_command" in loaded
    heavy = {"grpc", "google.protobuf", "libvirt", "msgspec", "click", "asyncio", "xml.etree.ElementTree"}
    assert not loaded & heavy
