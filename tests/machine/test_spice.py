"""A guest's screen by SPICE, from a client's link message to a real QEMU: every channel, the take-over, the end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from kvedge.resources.names import GRAPHICS
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.kvedge_cli import KvedgeCli
from tests.support.spice_client import NAMES, LinkRefused, link, list_channels

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600), pytest.mark.incremental]

IMAGE = "local/guest:1"
NAME = "seen"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("spice") / "data", "10.98.179.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()


@pytest.fixture(scope="module")
def cli(box: Box) -> KvedgeCli:
    return KvedgeCli(box.kubeconfig)


@pytest.fixture(scope="module")
def vm(box: Box) -> Iterator[str]:
    """A guest with SPICE and a sound card."""
    document = small_vm(NAME, IMAGE)
    template = document["spec"]["template"]
    template.setdefault("metadata", {}).setdefault("annotations", {})[GRAPHICS] = "spice"
    template["spec"]["domain"]["devices"]["sound"] = {"name": "speaker"}
    box.apply(document)
    box.wait_phase(NAME, "Running")
    yield NAME
    box.remove_vm(NAME)


def test_each_channel_of_a_client_reaches_qemu_and_the_next_client_takes_over(cli: KvedgeCli, vm: str) -> None:
    with cli.running("spice", vm, "--proxy-only") as process, ExitStack() as stack:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())["socket"]
        main = stack.enter_context(link(place))
        channels = list_channels(main)
        assert {NAMES.get(kind, str(kind)) for kind, _ in channels} == {
            *("display", "inputs", "cursor", "playback", "record", "usbredir")
        }
        assert [number for kind, number in channels if NAMES.get(kind) == "usbredir"] in ([0, 1], [1, 0])
        opened = [stack.enter_context(link(place, kind, main.session, number)) for kind, number in channels]
        with pytest.raises(LinkRefused):
            link(place, 3, main.session ^ 1)
        with cli.running("spice", vm, "--proxy-only") as other:
            assert other.stdout is not None
            with link(json.loads(other.stdout.readline())["socket"]) as second:
                assert all(channel.has_ended() for channel in (main, *opened))
                assert sorted(list_channels(second)) == sorted(channels)
            assert other.wait(30) == 0
        assert process.wait(30) == 0


def test_the_file_of_the_web_console_leads_a_client_to_qemu(box: Box, vm: str) -> None:
    command = [sys.executable, "-m", "kvedge", "web", "--kubeconfig", str(box.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        try:
            origin, _, secret = console.stdout.readline().strip().partition("/#sign-in=")
            file = asyncio.run(fetch_viewer_file(origin, secret, vm))
            place = file.partition("unix-path=")[2].partition("\n")[0]
            with link(place) as main:
                assert {"display", "inputs"} <= {NAMES.get(kind, str(kind)) for kind, _ in list_channels(main)}
                # The program takes its sockets with it.
                console.terminate()
                assert main.has_ended()
            # A second SIGTERM would end one that is ending by the signal itself.
            assert console.wait(30) == 0
        finally:
            console.kill()
    assert not Path(place).parent.exists()


async def fetch_viewer_file(origin: str, secret: str, vm: str) -> str:
    """As a page does, once it has signed in."""
    own = {"Origin": origin, "X-Kvedge-Console": "1"}
    async with aiohttp.ClientSession(headers=own, cookie_jar=aiohttp.CookieJar(unsafe=True)) as page:
        async with page.post(f"{origin}/sign-in", json={"secret": secret}) as answer:
            assert answer.status == 200
        async with page.post(f"{origin}/vms/default/{vm}/spice", json={}) as answer:
            document = await answer.json()
            assert answer.status == 200, document
            return str(document["file"])


def test_all_channels_end_with_the_guest(box: Box, cli: KvedgeCli, vm: str) -> None:
    with cli.running("spice", vm, "--proxy-only") as process:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())["socket"]
        with link(place) as main:
            (inputs,) = (channel for channel in list_channels(main) if NAMES.get(channel[0]) == "inputs")
            with link(place, inputs[0], main.session) as keys:
                cli.run("stop", vm, "--force", "--grace-period", "0")
                assert keys.has_ended()
                assert main.has_ended()
        assert process.wait(30) == 0
    done = cli.try_run("spice", vm, "--proxy-only")
    assert done.returncode != 0
