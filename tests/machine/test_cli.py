"""The way of a VM by kvedge's own verbs on one real box: launch, list, look, reach, expose, stop, delete."""

from __future__ import annotations

import json
import os
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.cli.exits import Exit
from tests.support.box import Box
from tests.support.guest import build_guest
from tests.support.kvedge_cli import KvedgeCli
from tests.support.terminal import in_terminal
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600), pytest.mark.incremental]

IMAGE = "local/guest:1"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("cli") / "data", "10.98.31.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()


@pytest.fixture(scope="module")
def cli(box: Box) -> KvedgeCli:
    return KvedgeCli(box.kubeconfig)


@pytest.fixture(scope="module")
def vm(box: Box, cli: KvedgeCli) -> Iterator[str]:
    """A VM that has been launched, and answers."""
    said = cli.run("launch", IMAGE, "web", "--memory", "128Mi", "--disk-size", "1Gi", "--wait", "--timeout", "120")
    assert said.splitlines()[0] == "VM web was created"
    assert said.splitlines()[1].startswith("VM web is running at 10.98.31.")
    box.wait_answer("web")
    yield "web"
    cli.try_run("delete", "vm", "web", "--ignore-not-found")


def test_the_list_says_where_it_is(cli: KvedgeCli, vm: str) -> None:
    (row,) = json.loads(cli.run("list", vm, "-o", "json"))
    assert (row["status"], row["ready"], row["memory"], row["image"]) == ("Running", True, "128Mi", IMAGE)
    line = cli.run("list").splitlines()[1].split()
    assert line[:2] == ["web", "Running"]
    assert line[3] == row["ip"]


def test_the_guests_web_page_is_at_a_local_port(cli: KvedgeCli, vm: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with cli.running("port-forward", f"vm/{vm}", "0:80") as process:
        assert process.stdout is not None
        place = process.stdout.readline().split()[2]
        for _ in range(3):
            with opener.open(f"http://{place}/", timeout=20) as answer:
                assert "hostname=web" in answer.read(65536).decode()


def test_the_guests_web_page_comes_by_standard_output(cli: KvedgeCli, vm: str) -> None:
    page = cli.run("port-forward", "--stdio=true", f"vmi/{vm}/default", "80", text="GET / HTTP/1.0\r\n\r\n")
    assert page.startswith("HTTP/1.")
    assert "hostname=web" in page


def test_the_screen_speaks_rfb_behind_the_printed_port(cli: KvedgeCli, vm: str) -> None:
    with cli.running("vnc", vm, "--proxy-only") as process:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        with socket.create_connection(("127.0.0.1", port), 20) as viewer:
            assert viewer.recv(12) == b"RFB 003.008\n"
            viewer.sendall(b"RFB 003.008\n")
            # One kind of security is offered: none.
            assert viewer.recv(2) == b"\x01\x01"
        assert process.wait(30) == 0


def test_a_picture_of_the_screen_is_a_picture(cli: KvedgeCli, vm: str, tmp_path: Path) -> None:
    target = tmp_path / "screen.png"
    cli.run("vnc", "screenshot", vm, "-f", str(target))
    data = target.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    # The size of the picture is in its first chunk.
    assert int.from_bytes(data[16:20], "big") >= 640


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an ssh client (Debian: openssh-client)")
def test_ssh_talks_to_a_port_of_the_guest(cli: KvedgeCli, vm: str, tmp_path: Path) -> None:
    # No SSH server is in the test guest: what its web server says shows that ssh got there.
    options = ("-t", "-v", "-t", "-F/dev/null", "-t", "-oBatchMode=yes")
    done = cli.try_run("ssh", f"joe@vm/{vm}", "-p", "80", *options, "--known-hosts", str(tmp_path / "hosts"))
    assert done.returncode == 255
    assert "HTTP/1." in done.stderr
    assert "Traceback" not in done.stderr


def test_a_paused_guest_is_listed_as_such(cli: KvedgeCli, vm: str) -> None:
    cli.run("pause", "vm", vm)
    wait_until(lambda: json.loads(cli.run("list", vm, "-o", "json"))[0]["status"] == "Paused", "the VM is paused")
    cli.run("unpause", "vm", vm)
    wait_until(lambda: json.loads(cli.run("list", vm, "-o", "json"))[0]["status"] == "Running", "the VM goes on")


def test_a_service_in_front_of_it_is_made(cli: KvedgeCli, vm: str) -> None:
    assert cli.run("expose", "vm", vm, "--name", "web-http", "--port", "80") == (
        "Service web-http successfully created for vm web\n"
    )
    service = json.loads(cli.run("get", "service", "web-http", "-o", "json"))
    assert service["spec"]["selector"] == {"vmi.kubevirt.io/id": "web"}


def test_stop_waits_until_the_run_is_gone(box: Box, cli: KvedgeCli, vm: str) -> None:
    said = cli.run("stop", vm, "--wait")
    assert said == "VM web was scheduled to stop\nVM web is stopped\n"
    assert box.vmi(vm) is None
    wait_until(lambda: json.loads(cli.run("list", vm, "-o", "json"))[0]["status"] == "Stopped", "it is listed so")
    again = cli.try_run("stop", vm)
    assert (again.returncode, again.stdout) == (Exit.FAILED, "")
    assert "VM is not running" in again.stderr


def test_a_terminal_sees_how_far_a_start_and_a_restart_are(box: Box, vm: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(box.kubeconfig), "TERM": "xterm"}
    runs = []
    for words in (["start", vm], ["restart", vm, "--force", "--grace-period", "0"]):
        command = box.command(*words, "--wait", "--timeout", "120")
        with in_terminal(command, environment) as (terminal, process):
            terminal.wait_for(b"VM web was scheduled to " + words[0].encode())
            terminal.wait_for(b"VM web is running at ", 120)
            assert process.wait(20) == 0
        # A line that was drawn again and again, and is gone at the end.
        assert b"\r\x1b[Kweb: " in terminal.seen
        run = box.vmi(vm)
        assert run is not None
        runs.append(run.metadata.uid)
    assert len({*runs}) == 2


def test_delete_waits_until_it_is_gone(cli: KvedgeCli, vm: str) -> None:
    # A guest that has not booted yet does not hear that it should shut down.
    cli.run("stop", vm, "--force", "--grace-period=0", "--wait")
    cli.run("delete", "vm", vm)
    assert cli.try_run("get", "vm", vm).returncode == Exit.NOT_FOUND
    # The Service was the VM's.
    wait_until(lambda: cli.try_run("get", "service", "web-http").returncode == Exit.NOT_FOUND, "its Service is gone")


def test_an_image_that_is_not_there_is_what_a_wait_ends_with(cli: KvedgeCli) -> None:
    done = cli.try_run("launch", "local/none:1", "lost", "--memory", "64Mi", "--wait", "--timeout", "15")
    try:
        assert done.returncode == Exit.TIMED_OUT
        assert "local/none:1" in done.stderr
    finally:
        cli.run("delete", "vm", "lost")
