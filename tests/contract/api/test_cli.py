"""kvedge's own verbs on the aggregated API, held to virtctl's: the same call does and says the same."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge import __version__
from kvedge.api.api_service import ApiRole
from kvedge.cli.exits import Exit
from kvedge.handler.launchers.vsock_request import VsockRequest
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.host_devices.device_report import DeviceReport, write_report
from kvedge.resources.names import GRAPHICS, HOST_DEVICES, SYSTEM_NAMESPACE
from tests.contract.api.cli_calls import CALLS, RUNNING
from tests.contract.api.conftest import EchoNode, remove
from tests.support import rfb_viewer
from tests.support.api_servers import ApiServerUnderTest, Kubectl
from tests.support.builders import replica_set_of, small_vmi, vm_of
from tests.support.golden.manifest_cases import CREATE_CASES, GOLDEN, LAUNCH_CASES
from tests.support.kube_apiserver import reachable_address
from tests.support.kvedge_cli import KvedgeCli
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
NAMESPACE = "/apis/kubevirt.io/v1/namespaces/default"
VM, VMI = f"{NAMESPACE}/virtualmachines/clitest", f"{NAMESPACE}/virtualmachineinstances/clitest"
MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"
KUBEVIRTS = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"


@pytest.fixture(scope="module")
def cli(server: ApiServerUnderTest) -> KvedgeCli:
    return KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))


@pytest.fixture(scope="module")
def virtctl(server: ApiServerUnderTest) -> Kubectl:
    return Kubectl(server.write_kubeconfig("admin", ["system:masters"]), "virtctl")


@contextlib.contextmanager
def a_vm(admin: KubeClient) -> Iterator[JsonObject]:
    document = vm_of(small_vmi(), runStrategy="Manual")
    document["metadata"]["name"] = "clitest"
    yield admin.request("POST", VM.rpartition("/")[0], document)
    remove(admin, VM)


@contextlib.contextmanager
def its_run(
    vm: JsonObject, admin: KubeClient, controller: KubeClient, node: str, **devices: object
) -> Iterator[JsonObject]:
    """As controller and handler would have made it; its guest has this host's own address."""
    document = small_vmi(domain__devices__clientPassthrough={})
    document["spec"]["domain"]["devices"] |= devices
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "clitest", "uid": vm["metadata"]["uid"]}
    document["metadata"] |= {"name": "clitest", "ownerReferences": [{**owner, "controller": True}]}
    controller.request("POST", VMI.rpartition("/")[0], document)
    nics = [{"name": "default", "ipAddress": "127.0.0.1", "mac": "02:00:00:00:00:01"}]
    status = {"phase": "Running", "nodeName": node, "interfaces": nics}
    controller.request("PATCH", f"{VM}/status", {"status": {"created": True}}, None, MERGE)
    yield controller.request("PATCH", VMI, {"status": status}, None, MERGE)
    remove(admin, VMI)


@pytest.fixture
def vmi(admin: KubeClient, controller: KubeClient, echo_node: EchoNode) -> Iterator[JsonObject]:
    with a_vm(admin) as vm, its_run(vm, admin, controller, echo_node.name) as found:
        yield found


@pytest.mark.parametrize(("call", "state"), CALLS, ids=[f"{call}, with {state}" for call, state in CALLS])
def test_a_call_does_and_says_what_virtctls_does(
    call: str,
    state: str,
    cli: KvedgeCli,
    virtctl: Kubectl,
    admin: KubeClient,
    controller: KubeClient,
    echo_node: EchoNode,
) -> None:
    seen = []
    for program in (virtctl, cli):
        calls = len(echo_node.door.calls)
        with contextlib.ExitStack() as stack:
            vm = stack.enter_context(a_vm(admin))
            run = stack.enter_context(its_run(vm, admin, controller, echo_node.name)) if state is RUNNING else None
            done = program.try_run(*call.split())
            requests = admin.request("GET", VM).get("status", {}).get("stateChangeRequests", [])
            grace = admin.request("GET", VMI)["spec"].get("terminationGracePeriodSeconds") if run else None
        # Runs have names of their own.
        asked = [{**request, "uid": bool(request.get("uid"))} for request in requests]
        seen.append((done, asked, grace, echo_node.door.calls[calls:]))
    (theirs, *their_effect), (ours, *our_effect) = seen
    assert our_effect == their_effect
    assert (ours.returncode == 0) == (theirs.returncode == 0), (ours.stderr, theirs.stderr)
    assert ours.stdout == theirs.stdout
    assert "Traceback" not in ours.stderr
    if ours.returncode:
        # virtctl may say where it was, kvedge what to do: the reason between is the same.
        reason, words = theirs.stderr.strip().splitlines()[-1], ours.stderr
        alike = difflib.SequenceMatcher(None, reason, words, autojunk=False).find_longest_match()
        assert alike.size >= min(len(reason), 20), (words, reason)


def test_what_is_not_there_ends_with_its_own_code_and_names_what_is_alike(cli: KvedgeCli, vmi: JsonObject) -> None:
    for words in ("start", "pause vmi", "reset", "get vm", "describe vmi", "delete vm", "expose vm", "list"):
        more = ["--name", "x", "--port", "1"] if words.startswith("expose") else []
        done = cli.try_run(*words.split(), "clitset", *more)
        assert (done.returncode, done.stdout) == (Exit.NOT_FOUND, ""), done.stderr
        assert "Did you mean clitest?" in done.stderr


def test_a_vm_of_another_namespace_is_pointed_at(cli: KvedgeCli, vmi: JsonObject) -> None:
    done = cli.try_run("start", "clitest", "-n", "kube-system")
    assert done.returncode == Exit.NOT_FOUND
    assert "There is one of that name in namespace default: add -n default." in done.stderr


def test_a_stopped_vm_is_told_apart_from_one_that_is_not_there(cli: KvedgeCli, admin: KubeClient) -> None:
    with a_vm(admin):
        done = cli.try_run("reset", "clitest")
        assert done.returncode == Exit.NOT_FOUND
        assert "start it with `kvedge start clitest`" in done.stderr


def test_of_several_the_one_that_is_not_there_keeps_no_other(cli: KvedgeCli, admin: KubeClient) -> None:
    for name in ("one", "two"):
        text = cli.run("create", "vm", "--name", name, "--run-strategy", "Manual")
        cli.run("apply", "-f", "-", text=text)
    done = cli.try_run("delete", "vm", "one", "absent", "two", "--no-wait")
    assert done.returncode == Exit.NOT_FOUND
    assert done.stdout.splitlines() == ['virtualmachine "one" deleted', 'virtualmachine "two" deleted']
    assert '"absent" not found' in done.stderr
    for name in ("one", "two"):
        # No controller is here to take its finalizer off.
        admin.request("PATCH", f"{NAMESPACE}/virtualmachines/{name}", {"metadata": {"finalizers": None}}, None, MERGE)


def test_the_list_has_a_line_for_each_vm(cli: KvedgeCli, vmi: JsonObject) -> None:
    lines = [line.split() for line in cli.run("list").splitlines()]
    assert lines[0] == ["NAME", "STATUS", "READY", "IP", "NODE", "AGE", "MEMORY", "IMAGE"]
    (row,) = [line for line in lines if line[0] == "clitest"]
    assert row[3:5] == ["127.0.0.1", "echo"]
    (document,) = json.loads(cli.run("list", "clitest", "-o", "json"))
    assert (document["ip"], document["mac"], document["kind"]) == ("127.0.0.1", "02:00:00:00:00:01", "VirtualMachine")
    assert cli.run("list", "clitest", "-o", "name") == "virtualmachine.kubevirt.io/clitest\n"
    assert cli.run("-n", "default", "list", "-l", "app=none") == ""


def test_waiting_ends_in_time_and_says_what_is_instead(cli: KvedgeCli, admin: KubeClient) -> None:
    with a_vm(admin):
        done = cli.try_run("start", "clitest", "--wait", "--timeout", "0.3")
        assert done.returncode == Exit.TIMED_OUT
        assert done.stdout == "VM clitest was scheduled to start\n"
        assert "timed out after 0.3 s waiting for VM clitest to run" in done.stderr


def test_a_manifests_guests_are_waited_for(cli: KvedgeCli, admin: KubeClient) -> None:
    text = (GOLDEN / "launch-plain.yaml").read_text().replace("name: web", "name: clitest")
    try:
        done = cli.try_run("apply", "-f", "-", "--wait", "--timeout", "0.3", text=text)
        assert (done.returncode, done.stdout) == (
            Exit.TIMED_OUT,
            "virtualmachine.kubevirt.io/clitest serverside-applied\n",
        ), done.stderr
    finally:
        remove(admin, VM)


def test_names_are_completed(cli: KvedgeCli, vmi: JsonObject) -> None:
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_KVEDGE_COMPLETE": "bash_complete"}
        done = KvedgeCli(Path(cli.environment["KUBECONFIG"]), **variables).try_run()
        assert done.stderr == ""
        return [item.partition(",")[2] for item in done.stdout.splitlines() if item]

    # A server that takes its time is not waited for.
    wait_until(lambda: "clitest" in completed("kvedge start cli"), "a VM is offered")
    wait_until(lambda: completed("kvedge ssh joe@vmi/cli") == ["joe@vmi/clitest"], "a VMI is offered")
    assert completed("kvedge start -n kube-system cli") == []
    wait_until(lambda: completed("kvedge delete vm clit") == ["clitest"], "a VM is offered")
    assert completed("kvedge get pod clit") == []
    kinds = ["vm", "vmi", "vmirs", "vmpool", "vmim", "vmsnapshot", "vmrestore", "vmclone", "vmcf", "vmcp"]
    kinds += ["vmf", "vmp"]
    assert completed("kvedge describe vm") == kinds
    assert completed("kvedge rest") == ["restart"]


def test_the_screen_is_saved_as_it_comes(cli: KvedgeCli, vmi: JsonObject, echo_node: EchoNode, tmp_path: Path) -> None:
    echo_node.door.picture = b"\x89PNG\r\n\x1a\n\x00\xff"
    target = tmp_path / "screen.png"
    assert cli.run("vnc", "screenshot", "clitest", "-f", str(target), "--move-cursor") == ""
    assert target.read_bytes() == echo_node.door.picture
    assert echo_node.door.calls[-1] == ("default", "clitest", "screenshot and move")


def test_a_viewer_reaches_the_screen_through_the_port_that_is_printed(cli: KvedgeCli, vmi: JsonObject) -> None:
    with cli.running("vnc", "clitest", "--proxy-only") as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        with socket.create_connection(("127.0.0.1", port), 10) as viewer:
            viewer.sendall(b"RFB 003.008\n")
            assert viewer.recv(64) == b"RFB 003.008\n"
        # The viewer has gone, and the proxy with it.
        assert process.wait(30) == 0


@pytest.fixture
def screen(vmi: JsonObject, echo_node: EchoNode) -> Iterator[None]:
    """The guest's streams begin as a screen's."""
    echo_node.door.speaks_rfb = True
    yield
    echo_node.door.speaks_rfb = False


def _viewer(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10)


@pytest.mark.parametrize("version", ["003.003", "003.007", "003.008"])
def test_one_viewer_that_knows_the_password_sees_the_screen(cli: KvedgeCli, screen: None, version: str) -> None:
    with cli.running("vnc", "clitest", "--proxy-only", "--password") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with _viewer(told["port"]) as stranger, pytest.raises(rfb_viewer.Refused):
            rfb_viewer.enter(stranger, "a guess!", version)
        with _viewer(told["port"]) as viewer:
            rfb_viewer.enter(viewer, told["password"], version)
            viewer.sendall(b"what is seen")
            assert rfb_viewer.read(viewer, 12) == b"what is seen"
            # The password is used: nobody listens any more.
            with pytest.raises(ConnectionRefusedError):
                _viewer(told["port"])
        assert process.wait(30) == 0


def test_a_viewers_file_holds_the_password_and_goes_with_the_session(
    cli: KvedgeCli, screen: None, tmp_path: Path
) -> None:
    file = tmp_path / "screen.vv"
    with cli.running("vnc", "clitest", "--viewer-file", str(file)) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert "password" not in told
        assert file.stat().st_mode & 0o777 == 0o600
        keys = dict(line.split("=") for line in file.read_text().splitlines() if "=" in line)
        assert (keys["type"], keys["host"], keys["port"]) == ("vnc", "127.0.0.1", str(told["port"]))
        with _viewer(told["port"]) as viewer:
            rfb_viewer.enter(viewer, keys["password"])
        assert process.wait(30) == 0
    assert not file.exists()
    with cli.running("vnc", "clitest", "--viewer-file", str(file)) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["file"] == str(file)
        process.terminate()
        process.wait(30)
    assert not file.exists()
    file.write_text("somebody's")
    done = cli.try_run("vnc", "clitest", "--viewer-file", str(file))
    assert (done.returncode, done.stderr) == (5, f"error: --viewer-file: {file}: File exists\n")


def test_a_session_with_a_password_ends_in_time_with_or_without_a_viewer(cli: KvedgeCli, screen: None) -> None:
    words = ("vnc", "clitest", "--proxy-only", "--password", "--valid-for")
    done = cli.try_run(*words, "1")
    assert (done.returncode, done.stderr) == (4, "error: no viewer came within 1 s\n")
    with cli.running(*words, "3") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with _viewer(told["port"]) as viewer:
            rfb_viewer.enter(viewer, told["password"])
            with pytest.raises((EOFError, ConnectionError)):
                rfb_viewer.read(viewer, 1)
        assert process.wait(30) == 0


def test_guesses_end_a_session_with_a_password(cli: KvedgeCli, screen: None) -> None:
    with cli.running("vnc", "clitest", "--proxy-only", "--password") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        for _ in range(5):
            with _viewer(told["port"]) as stranger, pytest.raises((rfb_viewer.Refused, EOFError, ConnectionError)):
                rfb_viewer.enter(stranger, "a guess!")
        assert process.wait(30) == 1


def test_a_session_with_a_password_takes_no_screen_before_somebody_shows_it(
    cli: KvedgeCli, screen: None, echo_node: EchoNode
) -> None:
    with cli.running("vnc", "clitest", "--proxy-only") as looking:
        assert looking.stdout is not None
        port = json.loads(looking.stdout.readline())["port"]
        with _viewer(port) as first, cli.running("vnc", "clitest", "--proxy-only", "--password") as process:
            assert rfb_viewer.read(first, 12) == b"RFB 003.008\n"
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert looking.poll() is None, "the first one looks on"
            with _viewer(told["port"]) as viewer:
                rfb_viewer.enter(viewer, told["password"])
                # It has taken the screen over.
                assert looking.wait(30) == 0
            assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--password",), "--password: add --proxy-only"),
        (("--password", "--proxy-only", "--address", "0.0.0.0"), "--address: 0.0.0.0 is reached from elsewhere"),
        (("--viewer-file", "x.vv", "--vnc-type", "tiger"), "--vnc-type and --vnc-path: a session with a password"),
    ],
)
def test_a_password_where_it_protects_nothing_is_refused(cli: KvedgeCli, words: tuple[str, ...], field: str) -> None:
    done = cli.try_run("vnc", "clitest", *words)
    assert done.returncode == 2
    assert field in done.stderr


def test_a_viewer_of_this_computer_is_started_with_the_screens_address(
    cli: KvedgeCli, vmi: JsonObject, tmp_path: Path
) -> None:
    script = tmp_path / "remote-viewer"
    script.write_text(
        f"#!{os.sys.executable}\nimport socket, sys\n"
        "host, port = sys.argv[1].removeprefix('vnc://').split(':')\n"
        "with socket.create_connection((host, int(port))) as screen:\n"
        "    screen.sendall(b'RFB')\n    print('seen', screen.recv(3).decode())\n"
    )
    script.chmod(0o755)
    assert cli.run("vnc", "clitest", "--vnc-path", str(script)) == "seen RFB\n"
    script.write_text("#!/bin/sh\nexit 3\n")
    done = cli.try_run("vnc", "clitest", "--vnc-path", str(script))
    assert (done.returncode, done.stderr) == (1, "error: the viewer ended with code 3 before it connected\n")


def test_a_usb_device_is_handed_over_by_usbredirect(
    cli: KvedgeCli, vmi: JsonObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "usbredirect"
    script.write_text(
        f"#!{os.sys.executable}\nimport socket, sys\n"
        "assert sys.argv[1:4] == ['--device', '0951:1666', '--to'], sys.argv\n"
        "host, port = sys.argv[4].split(':')\n"
        "with socket.create_connection((host, int(port))) as slot:\n"
        "    slot.sendall(b'hello')\n    print('seen', slot.recv(5).decode())\n"
    )
    script.chmod(0o755)
    monkeypatch.setitem(cli.environment, "PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert cli.run("usbredir", "0951:1666", "clitest") == "seen hello\n"


def test_a_client_of_usbredir_reaches_the_guest_through_the_port_that_is_printed(
    cli: KvedgeCli, vmi: JsonObject
) -> None:
    with cli.running("usbredir", "--no-launch", "clitest") as process:
        assert process.stdout is not None
        words, _, place = str(process.stdout.readline()).strip().rpartition(" ")
        assert words == "User can connect usbredir client at:"
        host, _, port = place.partition(":")
        with socket.create_connection((host, int(port)), 10) as client:
            client.sendall(b"hello")
            assert client.recv(64) == b"hello"
        assert process.wait(30) == 0


@pytest.fixture
def spice_vmi(vmi: JsonObject, admin: KubeClient) -> JsonObject:
    return admin.request("PATCH", VMI, {"metadata": {"annotations": {GRAPHICS: "spice"}}}, None, MERGE)


def _ask(place: str, word: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(10)
        channel.connect(place)
        channel.sendall(word)
        return channel.recv(64)


def test_each_channel_of_a_spice_viewer_has_a_way_of_its_own(cli: KvedgeCli, spice_vmi: JsonObject) -> None:
    with cli.running("spice", "clitest", "--proxy-only") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        directory = Path(told["socket"]).parent
        assert directory.stat().st_mode & 0o077 == 0
        assert f"unix-path={told['socket']}\n" in Path(told["file"]).read_text()
        with socket.socket(socket.AF_UNIX) as main:
            main.connect(told["socket"])
            main.sendall(b"main")
            assert main.recv(64) == b"main"
            assert [_ask(told["socket"], word) for word in (b"display", b"inputs")] == [b"display", b"inputs"]
        # The viewer has gone, and all that was made for it.
        assert process.wait(30) == 0
    assert not directory.exists()


def test_spice_ends_with_its_viewer_and_without_one_in_time(
    cli: KvedgeCli, spice_vmi: JsonObject, tmp_path: Path
) -> None:
    script = tmp_path / "remote-viewer"
    script.write_text(
        f"#!{os.sys.executable}\nimport socket, sys\n"
        "keys = dict(line.strip().split('=') for line in open(sys.argv[1]) if '=' in line)\n"
        "screen = socket.socket(socket.AF_UNIX)\nscreen.connect(keys['unix-path'])\n"
        "screen.sendall(b'REDQ')\nprint('seen', screen.recv(4).decode(), keys['title'])\n"
    )
    script.chmod(0o755)
    assert cli.run("spice", "clitest", "--viewer", str(script)) == "seen REDQ default/clitest\n"
    script.write_text("#!/bin/sh\nexit 3\n")
    done = cli.try_run("spice", "clitest", "--viewer", str(script))
    assert (done.returncode, done.stderr) == (1, "error: the viewer ended with code 3 before it connected\n")
    done = cli.try_run("spice", "clitest", "--proxy-only", "--valid-for", "1")
    assert (done.returncode, done.stderr) == (4, "error: the viewer did not connect within 1 s\n")


def test_spice_of_a_guest_that_has_none_is_refused_with_the_remedy(cli: KvedgeCli, vmi: JsonObject) -> None:
    done = cli.try_run("spice", "clitest", "--proxy-only")
    assert done.returncode == 1
    assert "set the annotation kvedge.io/graphics to spice on the VM's template" in done.stderr


@pytest.fixture
def guest_port(vmi: JsonObject, admin: KubeClient) -> Iterator[int]:
    """A port of "the guest", which is this host, that echoes what it gets by TCP and by UDP."""
    address = reachable_address()
    pod = f"{PODS}/{_launcher_pod(admin, vmi, address)}"
    with socket.create_server((address, 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        port = tcp.getsockname()[1]
        udp.bind((address, port))
        threads = [threading.Thread(target=serve, args=(end,)) for serve, end in ((_echo_tcp, tcp), (_echo_udp, udp))]
        for thread in threads:
            thread.start()
        yield port
        # What waits in another thread is woken by a shutdown only.
        tcp.shutdown(socket.SHUT_RDWR)
        udp.sendto(b"", (address, port))
        for thread in threads:
            thread.join(10)
    admin.request("DELETE", pod, {"gracePeriodSeconds": 0})


def _launcher_pod(admin: KubeClient, vmi: JsonObject, address: str) -> str:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "clitest", "controller": True}
    uid = vmi["metadata"]["uid"]
    metadata = {
        "name": "virt-launcher-clitest",
        "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid},
        "ownerReferences": [{**owner, "uid": uid}],
    }
    spec = {"nodeName": "echo", "containers": [{"name": "compute", "image": "none"}]}
    admin.request("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    admin.request("PATCH", f"{PODS}/{metadata['name']}/status", {"status": status}, None, MERGE)
    return str(metadata["name"])


def _echo_tcp(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)


def _echo_udp(server: socket.socket) -> None:
    while True:
        data, sender = server.recvfrom(65536)
        if not data:
            return
        server.sendto(data, sender)


def test_ports_lead_to_the_guest_by_tcp_and_udp(cli: KvedgeCli, vmi: JsonObject, guest_port: int) -> None:
    with cli.running(
        "port-forward", "vmi/clitest/default", f"0:{guest_port}", f"udp/127.0.0.1:0:{guest_port}"
    ) as process:
        assert process.stdout is not None
        places = [process.stdout.readline().split()[2].rpartition(":") for _ in range(2)]
        tcp, udp = ((host, int(port)) for host, _, port in places)
        payload = os.urandom(300_000)
        for _ in range(2):
            with socket.create_connection(tcp, 20) as connection:
                sender = threading.Thread(target=connection.sendall, args=(payload,))
                sender.start()
                received = b""
                while len(received) < len(payload):
                    received += connection.recv(65536)
                sender.join()
            assert received == payload
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(20)
            for word in (b"one", b"two"):
                asker.sendto(word, udp)
                assert asker.recv(64) == word
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_port_that_the_guest_does_not_serve_is_told_and_the_next_is_tried(
    cli: KvedgeCli, vmi: JsonObject, guest_port: int
) -> None:
    with socket.create_server((reachable_address(), 0)) as unused:
        nobody = unused.getsockname()[1]
    with cli.running("port-forward", "vm/clitest", f"0:{nobody}", f"0:{guest_port}") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        bad, good = (int(process.stdout.readline().split()[2].rpartition(":")[2]) for _ in range(2))
        with socket.create_connection(("127.0.0.1", bad), 20) as connection:
            assert connection.recv(1) == b""
        assert f"error handling connection for port {nobody} of vm/clitest: " in process.stderr.readline()
        with socket.create_connection(("127.0.0.1", good), 20) as connection:
            connection.sendall(b"still there")
            assert connection.recv(64) == b"still there"


def test_an_address_that_is_taken_is_a_precondition_of_the_host(cli: KvedgeCli, vmi: JsonObject) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = cli.try_run("port-forward", "vm/clitest", f"{taken.getsockname()[1]}:80")
    assert done.returncode == Exit.HOST
    assert "cannot listen on 127.0.0.1" in done.stderr


def test_standard_input_and_output_are_joined_to_a_port(cli: KvedgeCli, vmi: JsonObject, guest_port: int) -> None:
    text = "hello guest\n" * 5000
    # The end of the input is not the end of the answer.
    assert cli.run("port-forward", "--stdio=true", "vm/clitest/default", str(guest_port), text=text) == text


def test_a_desktop_is_shown_by_a_viewer_that_may_connect_again_and_ends_with_it(
    cli: KvedgeCli, vmi: JsonObject, guest_port: int, tmp_path: Path
) -> None:
    script = tmp_path / "xfreerdp3"
    script.write_text(
        f"#!{os.sys.executable}\nimport socket, sys\n"
        "host, port = sys.argv[1].removeprefix('/v:').split(':')\n"
        "for word in (b'first', b'second'):\n"
        "    screen = socket.create_connection((host, int(port)), 20)\n"
        "    screen.sendall(word)\n    print(screen.recv(64).decode(), *sys.argv[2:])\n"
    )
    script.chmod(0o755)
    wanted = ("rdp", "clitest", "--guest-port", str(guest_port), "--user", "SHOP\\ann")
    said = "/u:SHOP\\ann /t:default/clitest +clipboard /dynamic-resolution"
    assert cli.run(*wanted, "--viewer", str(script)) == f"first {said}\nsecond {said}\n"
    for code, told in ((2, (0, "")), (131, (1, "error: the viewer ended with code 131\n"))):
        script.write_text(f"#!/bin/sh\nexit {code}\n")
        done = cli.try_run(*wanted, "--viewer", str(script))
        assert (done.returncode, done.stderr) == told
    plain = tmp_path / "a-viewer"
    plain.write_text('#!/bin/sh\necho "$@"\n')
    plain.chmod(0o755)
    shown = cli.run("rdp", "clitest", "--guest-port", str(guest_port), "--viewer", str(plain))
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", shown)
    done = cli.try_run(*wanted, "--viewer", str(plain))
    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("error: --user is told to FreeRDP alone: ")


def test_a_desktop_behind_a_port_is_there_until_somebody_ends_it(
    cli: KvedgeCli, vmi: JsonObject, guest_port: int
) -> None:
    with cli.running("rdp", "clitest", "--proxy-only", "--guest-port", str(guest_port)) as process:
        assert process.stdout is not None
        place = ("127.0.0.1", json.loads(process.stdout.readline())["port"])
        for word in (b"one", b"two"):
            with socket.create_connection(place, 20) as connection:
                connection.sendall(word)
                assert connection.recv(64) == word
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_guest_without_remote_desktop_is_told_before_a_viewer_starts(
    cli: KvedgeCli, vmi: JsonObject, guest_port: int
) -> None:
    with socket.create_server((reachable_address(), 0)) as unused:
        nobody = unused.getsockname()[1]
    done = cli.try_run("rdp", "clitest", "--guest-port", str(nobody), "--viewer", "/bin/true")
    assert done.returncode == 1
    assert "refused" in done.stderr


@pytest.fixture
def vsock_guest(admin: KubeClient, controller: KubeClient, echo_node: EchoNode, api_role: ApiRole) -> Iterator[None]:
    configuration = {"developerConfiguration": {"featureGates": ["VSOCK"]}}
    body = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    made = admin.request("POST", KUBEVIRTS, {**body, "spec": {"configuration": configuration}})
    generation = made["metadata"]["generation"]
    wait_until(lambda: api_role.configuration.in_force.generation == generation, "the api role follows")
    with a_vm(admin) as vm, its_run(vm, admin, controller, echo_node.name, autoattachVSOCK=True):
        yield
    admin.request("DELETE", f"{KUBEVIRTS}/kubevirt")


@pytest.mark.parametrize(("options", "tls"), [((), True), (("--no-tls",), False)], ids=["with TLS", "without"])
def test_standard_input_and_output_are_joined_to_a_port_of_the_vsock(
    cli: KvedgeCli, vsock_guest: None, echo_node: EchoNode, options: tuple[str, ...], tls: bool
) -> None:
    text = "hello guest\n" * 5000
    assert cli.run("vsock", "clitest", "1234", *options, text=text) == text
    assert echo_node.door.ports[-1] == VsockRequest(1234, tls)


def test_a_guest_without_a_vsock_is_refused_in_kubevirts_words(cli: KvedgeCli, vmi: JsonObject) -> None:
    done = cli.try_run("vsock", "clitest", "1234", text="")
    assert done.returncode == 1
    assert "VSOCK is not attached." in done.stderr


_SSH = """#!/bin/sh
# Stands in for OpenSSH: runs its ProxyCommand as that does, and says something through it.
for word in "$@"; do
    case $word in ProxyCommand=*) way=${word#ProxyCommand=};; esac
done
echo "to $4" >&2
echo hello | sh -c "exec $way" | head -1
exit 7
"""


def test_ssh_reaches_the_guest_through_a_kvedge_of_its_own(
    cli: KvedgeCli, vmi: JsonObject, guest_port: int, tmp_path: Path
) -> None:
    (tmp_path / "ssh").write_text(_SSH)
    (tmp_path / "ssh").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    ssh = KvedgeCli(Path(cli.environment["KUBECONFIG"]), PATH=path)
    done = ssh.try_run("ssh", "joe@vm/clitest", "-p", str(guest_port), "-t", "-v", "-c", "uptime")
    # As the real one ends, so do we.
    assert (done.returncode, done.stdout) == (7, "hello\n"), done.stderr
    assert "to joe@vm.clitest.default" in done.stderr


def test_without_an_ssh_client_the_host_is_to_blame(cli: KvedgeCli, vmi: JsonObject, tmp_path: Path) -> None:
    bare = KvedgeCli(Path(cli.environment["KUBECONFIG"]), PATH=str(tmp_path))
    for words in (["ssh", "vm/clitest"], ["scp", "vm/clitest:a", "."]):
        done = bare.try_run(*words)
        assert done.returncode == Exit.HOST
        assert "apt install openssh-client" in done.stderr


def test_describe_leaves_a_labels_key_as_it_is(cli: KvedgeCli, admin: KubeClient) -> None:
    with a_vm(admin):
        labels = {"spec": {"template": {"metadata": {"labels": {"kubevirt.io/size": "small"}}}}}
        admin.request("PATCH", VM, labels, media_type="application/merge-patch+json")
        told = cli.run("describe", "vm", "clitest")
    assert "\n  RunStrategy: Manual\n" in told
    assert " kubevirt.io/size: small\n" in told


def test_a_set_is_scaled_and_only_from_the_number_that_was_named(cli: KvedgeCli, admin: KubeClient) -> None:
    document = replica_set_of(small_vmi(), 1)
    document["metadata"]["name"] = "clitest"
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets"
    admin.request("POST", path, document)
    try:
        said = cli.run("scale", "vmirs/clitest", "--replicas", "3")
        assert said == "virtualmachineinstancereplicaset.kubevirt.io/clitest scaled\n"
        assert admin.request("GET", f"{path}/clitest")["spec"]["replicas"] == 3
        done = cli.try_run("scale", "vmirs", "clitest", "--replicas", "5", "--current-replicas", "2")
        assert (done.returncode, done.stderr) == (1, "error: 3 are wanted now, not the 2 of --current-replicas\n")
        cli.run("scale", "vmirs", "clitest", "--replicas", "0", "--current-replicas", "3")
        # kube-apiserver leaves a zero out.
        assert admin.request("GET", f"{path}/clitest/scale")["spec"].get("replicas", 0) == 0
        listed = cli.run("get", "vmirs", "clitest").splitlines()
        assert listed[0].split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
        assert cli.try_run("scale", "vmirs/clitst", "--replicas", "1").returncode == Exit.NOT_FOUND
    finally:
        admin.request("DELETE", f"{path}/clitest")
    with a_vm(admin):
        done = cli.try_run("scale", "vm/clitest", "--replicas", "2")
    assert done.returncode == Exit.USAGE
    assert "cannot be scaled" in done.stderr


def test_a_service_is_made_and_owned_by_the_vm(cli: KvedgeCli, admin: KubeClient) -> None:
    with a_vm(admin) as vm:
        said = cli.run("expose", "vm", "clitest", "--name", "clitest-ssh", "--port", "2222", "--target-port", "22")
        assert said == "Service clitest-ssh successfully created for vm clitest\n"
        path = "/api/v1/namespaces/default/services/clitest-ssh"
        service = admin.request("GET", path)
        admin.request("DELETE", path)
    assert service["spec"]["selector"] == {"vmi.kubevirt.io/id": "clitest"}
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(2222, 22)]
    assert service["metadata"]["ownerReferences"][0]["uid"] == vm["metadata"]["uid"]


@pytest.mark.parametrize(
    "case",
    [
        *LAUNCH_CASES,
        *(case for case in CREATE_CASES if case.removeprefix("create-") in ("plain", "container-disks", "login")),
        *("create-config-drive", "create-no-cloud-init"),
    ],
)
def test_a_manifest_of_ours_is_accepted_by_admission(case: str, cli: KvedgeCli) -> None:
    said = cli.run("apply", "-f", str(GOLDEN / f"{case}.yaml"), "--dry-run")
    assert "serverside-applied (server dry run)" in said


def test_a_launched_vm_is_there_and_a_second_of_its_name_is_refused(cli: KvedgeCli, admin: KubeClient) -> None:
    assert cli.run("launch", "local/none:1", "clitest", "--run-strategy", "Halted") == "VM clitest was created\n"
    try:
        assert admin.request("GET", VM)["spec"]["template"]["spec"]["domain"]["memory"] == {"guest": "1Gi"}
        again = cli.try_run("launch", "local/none:1", "clitest")
        assert again.returncode == 1
        assert "already exists: start it with `kvedge start clitest`" in again.stderr
    finally:
        remove(admin, VM)


def test_a_vm_is_expanded_as_virtctl_has_it(cli: KvedgeCli, virtctl: Kubectl, admin: KubeClient) -> None:
    with a_vm(admin):
        words = ("expand", "--vm", "clitest", "-o", "json")
        ours, theirs = (json.loads(program.run(*words))["spec"]["template"]["spec"] for program in (cli, virtctl))
    # virtctl's types write out what is empty.
    assert theirs["domain"].pop("resources") == {}
    assert ours == theirs
    path = str(GOLDEN / "launch-plain.yaml")
    assert json.loads(cli.run("expand", "--file", path, "-o", "json"))["metadata"]["name"] == "web"
    assert cli.try_run("expand").stderr == "error: name either --vm or --file\n"


def test_both_versions_are_told(cli: KvedgeCli) -> None:
    lines = cli.run("version").splitlines()
    assert lines == [
        f"Client Version: kvedge {__version__}",
        f"Server Version: kvedge {__version__} (API of KubeVirt v1.9.0)",
    ]
    told = json.loads(cli.run("version", "-o", "json"))["serverVersion"]
    assert (told["gitVersion"], told["kvedgeVersion"]) == (f"v1.9.0+kvedge{__version__}", f"v{__version__}")


@pytest.fixture
def kubevirt_object(admin: KubeClient) -> Iterator[None]:
    """The KubeVirt object, which permits a card."""
    card = {"pciVendorSelector": "8086:37c9", "resourceName": "intel.com/qat"}
    document = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt"},
        "spec": {"configuration": {"permittedHostDevices": {"pciHostDevices": [card]}}},
    }
    path = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"
    admin.request("POST", path, document)
    yield
    remove(admin, f"{path}/kubevirt")


def test_levels_of_logs_are_shown_and_set_as_virtctl_does(cli: KvedgeCli, kubevirt_object: None) -> None:
    assert cli.run("adm", "log-verbosity", "--all").splitlines()[0] == "virt-api=2"
    cli.run("adm", "log-verbosity", "--virt-handler=7", "--virt-api=3")
    assert cli.run("adm", "log-verbosity", "--virt-handler", "--virt-api").splitlines() == [
        "virt-api=3",
        "virt-handler=7",
    ]
    assert "successfully" in cli.run("adm", "log-verbosity", "--reset", "--virt-handler=1")
    assert cli.run("adm", "log-verbosity", "--all").splitlines() == [
        *("virt-api=2", "virt-controller=2", "virt-handler=1", "virt-launcher=2", "virt-operator=2")
    ]
    mixed = cli.try_run("adm", "log-verbosity", "--virt-api", "--virt-handler=7")
    assert (mixed.returncode, "only show or set is allowed" in mixed.stderr) == (Exit.USAGE, True)
    assert cli.try_run("adm", "log-verbosity", "--all=10").returncode == Exit.USAGE


def test_resources_that_vms_may_name_are_told_in_virtctls_words(cli: KvedgeCli, kubevirt_object: None) -> None:
    assert cli.run("permitted-devices").splitlines() == [
        *("Permitted Devices: ", "Host Devices: ", "intel.com/qat ", "GPU Devices: ", "")
    ]


def test_devices_of_nodes_are_listed_with_who_has_them(cli: KvedgeCli, admin: KubeClient) -> None:
    stick = DeviceReport(
        kind="usb", device="1-2", model="46f4:0001", resource="kubevirt.io/storage", used_by="shop/web"
    )
    other = DeviceReport(kind="pci", device="0000:66:00.0", model="8086:1572", driver="i40e")
    metadata = {"name": "with-devices", "annotations": {HOST_DEVICES: write_report([stick, other])}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    admin.request("POST", "/api/v1/nodes", node)
    try:
        rows = json.loads(cli.run("device", "list", "with-devices", "-o", "json"))
        assert [(row["device"], row["permitted"], row.get("usedBy")) for row in rows] == [
            ("1-2", True, "shop/web"),
            ("0000:66:00.0", False, None),
        ]
        header, line, *_ = cli.run("device", "list", "with-devices").splitlines()
        assert header.split()[:3] == ["NODE", "KIND", "DEVICE"]
        assert line.split()[-3:] == ["shop/web", "in", "use"]
        missing = cli.try_run("device", "list", "with-device")
        assert (missing.returncode, "Did you mean with-devices" in missing.stderr) == (Exit.NOT_FOUND, True)
        assert len(cli.run("device", "list", "with-devices", "--permitted").splitlines()) == 2
    finally:
        remove(admin, "/api/v1/nodes/with-devices")
