# Tests: kvedge/web/spice_door.py
"""A guest's screen by SPICE from its page: the file for a viewer, whom it lets in, and when it is worth nothing."""

from __future__ import annotations

import asyncio
import configparser
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import GRAPHICS
from tests.browser.conftest import console
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import EchoNode, remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import small_vmi
from tests.support.chromium import Page, chromium_page

_VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_MERGE = "application/merge-patch+json"
_BUTTON = "[...document.querySelectorAll('button')].some((one) => one.textContent === 'SPICE viewer')"


@pytest.fixture
def seen(controller: KubeClient, echo_node: EchoNode, subresources_answer: None) -> Iterator[JsonObject]:
    """A guest with SPICE, whose channels echo."""
    document = small_vmi()
    document["metadata"] |= {"name": "seen", "annotations": {GRAPHICS: "spice"}}
    controller.request("POST", _VMIS, document)
    status = {"phase": "Running", "nodeName": echo_node.name, "conditions": []}
    yield controller.request("PATCH", f"{_VMIS}/seen", {"status": status}, None, _MERGE)
    remove(controller, f"{_VMIS}/seen")


@pytest.fixture
def looker_link(server: ApiServerUnderTest, admin: KubeClient, subresources_answer: None) -> Iterator[str]:
    """The console of somebody who may see VMs, and none of their screens."""
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "browser-looker"}}
    rules = [{"apiGroups": ["kubevirt.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "browser-looker"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "looker"}
    admin.request("POST", f"{_RBAC}/clusterroles", {**about, "kind": "ClusterRole", "rules": rules})
    binding = {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
    admin.request("POST", f"{_RBAC}/clusterrolebindings", binding)
    with console(server.write_kubeconfig("looker")) as printed:
        yield printed
    for kind in ("clusterrolebindings", "clusterroles"):
        admin.request("DELETE", f"{_RBAC}/{kind}/browser-looker")


async def save_file(page: Page, directory: Path, *, takes_over: bool = False) -> Path:
    """By the button; where the file says that the screen is."""
    directory.mkdir(exist_ok=True)
    await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(directory))
    await page.click("button", "SPICE viewer")
    if takes_over:
        await page.wait_text("Somebody else looks at the screen of default/seen. Take it from them?")
        await page.click("dialog button", "Take it over")
    await page.wait_text("can be opened within a minute")
    file = directory / "default-seen.vv"
    async with asyncio.timeout(20):
        while not file.exists():
            await asyncio.sleep(0.05)
    parser = configparser.ConfigParser()
    parser.read_string(file.read_text())
    file.unlink()
    given = parser["virt-viewer"]
    assert (given["type"], given["title"], given["delete-this-file"]) == ("spice", "default/seen", "1")
    return Path(given["unix-path"])


async def open_channel(socket: Path, words: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As a viewer does for each of its channels; the guest has answered."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(words)
    async with asyncio.timeout(20):
        assert await reader.readexactly(len(words)) == words
    return reader, writer


async def wait_gone(socket: Path) -> None:
    """Until nobody can come there any more."""
    async with asyncio.timeout(30):
        while socket.parent.exists():
            await asyncio.sleep(0.05)


def test_a_file_leads_all_channels_of_one_viewer_to_the_guest_and_is_worth_nothing_afterwards(
    seen: JsonObject, echo_node: EchoNode, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "seen")
            socket = await save_file(page, tmp_path / "saved")
            # Nobody else of this computer may enter.
            assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
            _, main = await open_channel(socket, b"REDQ main")
            _, inputs = await open_channel(socket, b"REDQ inputs")
            assert echo_node.door.open_streams == 2
            for writer in (inputs, main):
                writer.close()
            await wait_gone(socket)
            # Another file is another place, which ends with the session.
            other = await save_file(page, tmp_path / "saved")
            assert other != socket
            reader, writer = await open_channel(other, b"REDQ again")
            # Afterwards the page asks who it is, and is told that it is nobody.
            is_faultless(page, link)
            await page.click("button", "Sign out")
            async with asyncio.timeout(30):
                assert await reader.read() == b""
            await wait_gone(other)
            writer.close()

    asyncio.run(test())


def test_a_screen_that_is_looked_at_is_taken_over_after_a_question_alone(
    seen: JsonObject, echo_node: EchoNode, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "seen")
            first = await save_file(page, tmp_path / "saved")
            reader, writer = await open_channel(first, b"REDQ main")
            second = await save_file(page, tmp_path / "saved", takes_over=True)
            # QEMU sends the first one away once the second one says who it is; until then nobody has lost anything.
            writer.write(b"still here")
            async with asyncio.timeout(20):
                assert await reader.readexactly(10) == b"still here"
            _, other = await open_channel(second, b"REDQ other")
            is_faultless(page, link)
            for each in (writer, other):
                each.close()
            await wait_gone(first)
            await wait_gone(second)

    asyncio.run(test())


def test_who_may_only_look_and_a_guest_without_spice_have_no_button(
    seen: JsonObject, guest: JsonObject, looker_link: str, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        # Another user's page, and another guest's.
        for number, (door, name) in enumerate(((looker_link, "seen"), (link, "small"))):
            async with chromium_page(tmp_path / str(number)) as page:
                await page.open(door)
                await page.click("a", name)
                # Drawn after what may be done was asked.
                await page.wait("document.querySelectorAll('main h2').length > 3", "the page is there")
                await page.wait(
                    "performance.getEntriesByType('resource').some((one) => one.name.includes('/rights/'))",
                    "rights are asked",
                )
                await asyncio.sleep(1)
                assert not await page.evaluate(_BUTTON)

    for number in range(2):
        (tmp_path / str(number)).mkdir()
    asyncio.run(test())


def test_what_the_server_says_against_it_is_shown(seen: JsonObject, link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "seen")
            await page.wait(_BUTTON, "it is offered")
            answer = """fetch("vms/default/absent/spice", { method: "POST", body: "{}",
                headers: { "Content-Type": "application/json", "X-Kvedge-Console": "1" } })
                .then(async (got) => `${got.status} ${(await got.json()).message}`)"""
            assert "404" in await page.evaluate(answer)

    asyncio.run(test())
