"""The console of a box in a browser: a token is pasted, and its user sees what it may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.runtime.tls.certificates import TlsFiles
from kvedge.web.on_box.box_console import BoxConsole
from tests.browser.accessibility import findings
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.chromium import Page, chromium_page

_CORE = "/api/v1/namespaces/default"
_BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
_FIELD = "document.querySelector('textarea')"


@pytest.fixture
def address(
    server: ApiServerUnderTest, subresources_answer: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where it is."""
    kubeconfig = server.write_kubeconfig("admin", ["system:masters"])
    pki = kubeconfig.parent / "data" / "state" / "pki"
    console = BoxConsole(
        "127.0.0.1:0", kubeconfig, TlsFiles(pki / "server-ca.crt", pki / "server.crt", pki / "server.key")
    )
    console.start()
    yield f"https://127.0.0.1:{console.port}/"
    console.stop()


@pytest.fixture
def token(admin: KubeClient) -> Iterator[str]:
    """Of an account that may do everything in one namespace."""
    admin.request("POST", f"{_CORE}/serviceaccounts", {"metadata": {"name": "ann"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "ann", "namespace": "default"}
    admin.request("POST", _BINDING, {"metadata": {"name": "ann"}, "roleRef": role, "subjects": [subject]})
    answer = admin.request("POST", f"{_CORE}/serviceaccounts/ann/token", {"spec": {}})
    yield answer["status"]["token"]
    remove(admin, f"{_BINDING}/ann")
    remove(admin, f"{_CORE}/serviceaccounts/ann")


async def paste(page: Page, text: str) -> None:
    """Into the field, and send it."""
    await page.wait(_FIELD, "a token is asked for")
    await page.evaluate(f"{_FIELD}.value = {json.dumps(text)}, 0")
    await page.click("button", "Sign in")


def test_a_token_signs_in_and_a_wrong_one_is_told_at_its_field(
    guest: JsonObject, address: str, token: str, axe: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            # As a user who has taken the box's authority in.
            await page.call("Security.setIgnoreCertificateErrors", ignore=True)
            await page.open(address)
            await paste(page, "a-token-of-nobodys")
            await page.wait_text("the API server does not know this token")
            assert await findings(page, axe) == []
            # A browser tells of each refusal on its console: not signed in yet, and the wrong token.
            assert len(page.faults) == 2
            page.faults.clear()
            await paste(page, token)
            await page.click("tbody a", "small")
            await page.wait_text("default/small")
            await page.click("a", "Serial console")
            await page.wait("document.querySelector('.xterm-helper-textarea')", "the console is there")
            # The figures of all guests are not told to a user of one namespace; its page has the VM's own instead.
            page.faults[:] = [each for each in page.faults if not each.endswith("/vms/default/small/use")]
            is_faultless(page, address)

    asyncio.run(test())


def test_a_token_is_pasted_by_the_keyboard_alone(address: str, token: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.call("Security.setIgnoreCertificateErrors", ignore=True)
            await page.open(address)
            await page.wait(f"{_FIELD} && document.activeElement === {_FIELD}", "the field has the keyboard")
            await page.type("a-token-of-nobodys")
            await page.tab_to("Sign in")
            await page.press("Enter")
            await page.wait_text("the API server does not know this token")
            # What is wrong is read out with the field that has the keyboard again.
            assert await page.evaluate(f"document.activeElement === {_FIELD}")
            ids = f"{_FIELD}.getAttribute('aria-describedby').split(' ')"
            told = await page.evaluate(f"{ids}.map((id) => document.getElementById(id).innerText).join(' ')")
            assert "the API server does not know this token, or it has ended" in told
            await page.evaluate(f"{_FIELD}.select(), 0")
            await page.type(token)
            await page.tab_to("Sign in")
            await page.press("Enter")
            await page.wait_text("Sign out")
            await page.wait_text("Virtual machines")

    asyncio.run(test())
