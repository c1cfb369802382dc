# Tests: kvedge/web/on_box/box_console.py, kvedge/web/on_box/box_users.py, kvedge/web/on_box/guests.py
"""A box's console over HTTPS, before a real embedded API: who comes in, by which names, and with which rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.runtime.services import ServiceError
from kvedge.runtime.tls.bare_contexts import new_client_context
from kvedge.runtime.tls.certificates import TlsFiles
from kvedge.web.on_box import box_console, guests
from kvedge.web.on_box.box_console import COOKIE, BoxConsole, find_origins
from tests.support.api_servers import EmbeddedServer
from tests.support.certificate_files import FileAuthority

_CORE = "/api/v1/namespaces/default"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class Box:
    """An API server, its admin, and the console before it."""

    admin: KubeClient
    kubeconfig: Path
    files: TlsFiles
    console: BoxConsole

    def token(self, account: str) -> str:
        """For a ServiceAccount, as `kubectl create token` gets one."""
        answer = self.admin.request("POST", f"{_CORE}/serviceaccounts/{account}/token", {"spec": {}})
        return str(answer["status"]["token"])

    def browse(self, test: Callable[[Browser], Awaitable[None]]) -> None:
        """Run a test as a browser that trusts the box's authority."""

        async def run() -> None:
            tls = new_client_context()
            tls.load_verify_locations(cadata=self.files.ca.read_text())
            # Clients of this library take no cookies of addresses by default, as browsers do.
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), cookie_jar=jar) as session:
                await test(Browser(session, f"https://127.0.0.1:{self.console.port}"))

        asyncio.run(run())


@dataclass(frozen=True)
class Browser:
    session: aiohttp.ClientSession
    origin: str

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(f"{self.origin}{path}", headers=headers) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: Mapping[str, Any], **headers: str) -> tuple[int, Any]:
        sent = {"Origin": self.origin, "X-Kvedge-Console": "1", "Content-Type": "application/json", **headers}
        async with self.session.post(f"{self.origin}{path}", data=json.dumps(body), headers=sent) as answer:
            return answer.status, await answer.json()


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """From before the console's first pause on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guests, "_FAILED_SECONDS", 0.0)
        patch.setattr(box_console, "_UPKEEP_SECONDS", 0.05)
        yield


@pytest.fixture(scope="module")
def box(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    folder = tmp_path_factory.mktemp("box")
    server = EmbeddedServer(folder)
    server.start()
    kubeconfig = server.write_kubeconfig("admin", ["system:masters"])
    admin = KubeClient.from_kubeconfig(kubeconfig)
    for account in ("ann", "leaver"):
        admin.request("POST", f"{_CORE}/serviceaccounts", {"metadata": {"name": account}})
    pki = folder / "data" / "state" / "pki"
    files = TlsFiles(pki / "server-ca.crt", pki / "server.crt", pki / "server.key")
    console = BoxConsole("127.0.0.1:0", kubeconfig, files)
    console.start()
    yield Box(admin, kubeconfig, files, console)
    console.stop()
    server.stop()


def test_a_token_signs_in_and_its_user_has_its_own_rights_alone(box: Box) -> None:
    token = box.token("ann")

    async def test(browser: Browser) -> None:
        assert await browser.get("/ways") == (200, {"credential": True})
        assert (await browser.get("/who"))[0] == 401
        async with browser.session.post(
            f"{browser.origin}/sign-in",
            data=json.dumps({"credential": token}),
            headers={"Origin": browser.origin, "X-Kvedge-Console": "1", "Content-Type": "application/json"},
        ) as answer:
            assert answer.status == 200
            cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        assert {part.strip() for part in cookie.split(";")[1:]} == {"HttpOnly", "Path=/", "SameSite=Strict", "Secure"}
        assert (await browser.get("/who"))[0] == 200
        # An account without any rights: the API server has refused, not the console.
        status, said = await browser.get("/nodes")
        assert (status, "system:serviceaccount:default:ann" in said["message"]) == (403, True)
        assert (await browser.post("/sign-out", {}))[0] == 200
        assert (await browser.get("/who"))[0] == 401

    box.browse(test)


def test_a_token_that_nobody_gave_is_refused(box: Box) -> None:
    async def test(browser: Browser) -> None:
        status, said = await browser.post("/sign-in", {"credential": "a-token-of-nobodys"})
        assert (status, said["message"]) == (403, "the API server does not know this token, or it has ended")
        assert (await browser.post("/sign-in", {"secret": "x" * 43}))[0] == 403
        assert (await browser.post("/sign-in", {"credential": 5}))[0] == 400
        assert (await browser.get("/who"))[0] == 401

    box.browse(test)


def test_a_kubeconfig_with_a_key_is_refused_with_advice(box: Box) -> None:
    async def test(browser: Browser) -> None:
        status, said = await browser.post("/sign-in", {"credential": box.kubeconfig.read_text()})
        assert (status, "run `kvedge web` on your own computer" in said["message"]) == (403, True)

    box.browse(test)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Host": "evil.example"}, 421, id="a name that somebody has pointed here"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another site's page"),
        pytest.param({"Origin": "null"}, 403, id="a page in a frame"),
        pytest.param({"X-Kvedge-Console": ""}, 403, id="a form"),
        pytest.param({"Content-Type": "text/plain"}, 415, id="a form's type"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="a browser that says so"),
    ],
)
def test_other_pages_cannot_sign_in(box: Box, headers: dict[str, str], status: int) -> None:
    token = box.token("ann")

    async def test(browser: Browser) -> None:
        assert (await browser.post("/sign-in", {"credential": token}, **headers))[0] == status
        assert (await browser.get("/who"))[0] == 401

    box.browse(test)


def test_a_session_ends_when_the_api_server_no_longer_knows_its_user(box: Box) -> None:
    token = box.token("leaver")

    async def test(browser: Browser) -> None:
        assert (await browser.post("/sign-in", {"credential": token}))[0] == 200
        assert (await browser.get("/who"))[0] == 200
        await asyncio.to_thread(box.admin.request, "DELETE", f"{_CORE}/serviceaccounts/leaver")
        async with asyncio.timeout(20):
            while (await browser.get("/who"))[0] != 401:
                await asyncio.sleep(0.05)

    box.browse(test)


def test_a_user_has_eight_sessions(box: Box) -> None:
    token = box.token("ann")

    async def test(browser: Browser) -> None:
        kept = []
        for _ in range(8):
            assert (await browser.post("/sign-in", {"credential": token}))[0] == 200
            kept.append({cookie.key: cookie.value for cookie in browser.session.cookie_jar})
            browser.session.cookie_jar.clear()
        status, said = await browser.post("/sign-in", {"credential": token})
        assert (status, said["message"]) == (403, "8 sessions are open: sign out of one")
        for cookies in kept:
            browser.session.cookie_jar.clear()
            sent = "; ".join(f"{key}={value}" for key, value in cookies.items())
            assert (await browser.post("/sign-out", {}, Cookie=sent))[0] == 200

    box.browse(test)


def test_an_address_that_is_in_use_is_told_with_the_setting(box: Box) -> None:
    other = BoxConsole(f"127.0.0.1:{box.console.port}", box.kubeconfig, box.files)
    with pytest.raises(ServiceError, match=r"console-address: cannot listen on 127\.0\.0\.1:\d+"):
        other.start()
    other.stop()


def test_a_certificate_that_is_not_there_is_told(box: Box, tmp_path: Path) -> None:
    lost = TlsFiles(box.files.ca, tmp_path / "server.crt", box.files.key)
    with pytest.raises(ServiceError, match=r"server\.crt: cannot be read"):
        BoxConsole("127.0.0.1:0", box.kubeconfig, lost).start()


def test_a_certificate_of_wildcards_alone_is_told_with_what_to_do(box: Box, tmp_path: Path) -> None:
    pair = FileAuthority(tmp_path, "site").issue("wild", hosts=["*.shop.example"])
    console = BoxConsole("127.0.0.1:0", box.kubeconfig, TlsFiles(box.files.ca, pair.cert, pair.key))
    with pytest.raises(ServiceError, match=r"no host but wildcards \(\*\.shop\.example\).* have console-certificate"):
        console.start()


def test_beside_a_wildcard_the_names_in_full_count() -> None:
    assert find_origins(frozenset({"*.shop.example", "box.shop.example"}), 443) == {
        "box.shop.example": "https://box.shop.example"
    }


def test_browsers_leave_out_the_port_of_https() -> None:
    hosts = frozenset({"Box", "10.0.0.5", "::1"})
    assert find_origins(hosts, 443) == {
        "box": "https://box",
        "10.0.0.5": "https://10.0.0.5",
        "[::1]": "https://[::1]",
    }
    assert find_origins(frozenset({"::1"}), 8443) == {"[::1]:8443": "https://[::1]:8443"}
