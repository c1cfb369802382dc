"""The web console before an API server: who gets in, by what, and what streams it opens for whom."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from kvedge.client.kubeconfigs import kubeconfig_paths, load_kubeconfigs
from kvedge.client.session import Session, connect
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.runtime.serving.connection_bounds import MOST_UNKNOWN
from kvedge.web.console_server import choose_namespace, serve
from kvedge.web.page_calls import READS, WRITES
from tests.contract.api.conftest import remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.builders import small_vmi

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]

_VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
_OWN = {"X-Kvedge-Console": "1"}
_SMALL = {"namespace": "default", "name": "small", "stream": "console"}


class Browser:
    """One browser's cookies, and what pages of the console send."""

    def __init__(self, link: str, http: aiohttp.ClientSession) -> None:
        self.origin, _, self.secret = link.partition("/#sign-in=")
        self.http = http

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, JsonObject]:
        """A write as our pages make it, but for the headers that are given."""
        all_headers = {**_OWN, "Origin": self.origin, **headers}
        async with self.http.post(f"{self.origin}{path}", json=body, headers=all_headers) as answer:
            assert "trusted-types 'none'" in answer.headers["Content-Security-Policy"]
            return answer.status, await answer.json()

    async def get(self, path: str, **headers: str) -> tuple[int, JsonObject]:
        """A read."""
        async with self.http.get(f"{self.origin}{path}", headers=headers) as answer:
            return answer.status, await answer.json()

    async def sign_in(self) -> int:
        """With the link."""
        return (await self.post("/sign-in", {"secret": self.secret}))[0]

    async def ticket(self) -> str:
        """For the console of the guest."""
        status, document = await self.post("/tickets", _SMALL)
        assert status == 200, document
        return str(document["ticket"])

    async def stream(self, ticket: str, **headers: str) -> aiohttp.ClientWebSocketResponse:
        """Open it."""
        protocols = (f"ticket.kvedge.io.{ticket}", "plain.kubevirt.io")
        return await self.http.ws_connect(
            f"{self.origin}/stream", protocols=protocols, headers={"Origin": self.origin, **headers}
        )


@pytest.fixture(scope="module")
def session(server: ApiServerUnderTest) -> Session:
    """The user's own."""
    kubeconfig = server.write_kubeconfig("admin", ["system:masters"])
    return connect(load_kubeconfigs(kubeconfig_paths(kubeconfig), None))


def run(session: Session, test: Callable[[Browser], Awaitable[None]]) -> None:
    """A console for one test."""

    @asynccontextmanager
    async def console() -> AsyncIterator[Browser]:
        stopped, link = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(session, None, 0, link.set_result, stopped))
        # Cookies of an address without a name are refused otherwise.
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            yield Browser(await link, http)
        stopped.set()
        await task

    async def limited() -> None:
        async with asyncio.timeout(60), console() as browser:
            await test(browser)

    asyncio.run(limited())
    with warnings.catch_warnings():
        # The TLS of a stream that was closed may wait for the server's goodbye when the loop ends: its socket is closed
        # here, not in a later test.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_nothing_is_told_before_sign_in_and_a_link_works_once(session: Session) -> None:
    async def test(browser: Browser) -> None:
        for path in ("/who", "/vms/default/small", "/vms/default/small/manifest", "/live", "/stream"):
            assert (await browser.get(path))[0] == 401, path
        assert (await browser.post("/tickets", _SMALL))[0] == 401
        assert (await browser.post("/vms/default/small/pause", {}))[0] == 401
        for path in READS:
            assert (await browser.get(path.format(namespace="default", name="small", span="day")))[0] == 401, path
        for path in WRITES:
            assert (await browser.post(path.format(namespace="default", name="small"), {}))[0] == 401, path
        assert (await browser.post("/sign-in", {"secret": "x" * 43}))[0] == 403
        assert await browser.sign_in() == 200
        [cookie] = browser.http.cookie_jar
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
        assert (await browser.get("/who"))[0] == 200
        status, document = await browser.post("/sign-in", {"secret": browser.secret})
        assert (status, "used already" in document["message"]) == (403, True)
        assert (await browser.post("/sign-out", {}))[0] == 200
        assert (await browser.get("/who"))[0] == 401

    run(session, test)


def test_other_origins_and_hosts_get_nothing_with_the_users_cookie(session: Session, guest: JsonObject) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        for path in ("/", "/who", "/static/main.js", "/nowhere"):
            assert (await browser.get(path, Host="evil.example"))[0] == 421, path
        assert (await browser.post("/tickets", _SMALL, Origin="http://evil.example"))[0] == 403
        assert (await browser.post("/tickets", _SMALL, **{"X-Kvedge-Console": "0"}))[0] == 403
        for path in ("/live", "/stream"):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await browser.http.ws_connect(f"{browser.origin}{path}", headers={"Origin": "http://evil.example"})
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await browser.http.ws_connect(f"{browser.origin}{path}")
        ticket = await browser.ticket()
        with pytest.raises(aiohttp.WSServerHandshakeError, match="421"):
            await browser.stream(ticket, Host="evil.example")

    run(session, test)


def test_a_ticket_opens_one_stream(session: Session, guest: JsonObject) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        ticket = await browser.ticket()
        stream = await browser.stream(ticket)
        assert stream.protocol == "plain.kubevirt.io"
        await stream.send_bytes(b"\x00\xff")
        assert await stream.receive_bytes() == b"\x00\xff"
        for used in (ticket, "x" * 43, ""):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await browser.stream(used)
        await browser.post("/sign-out", {})
        # The stream ends with its session.
        assert (await stream.receive()).type is aiohttp.WSMsgType.CLOSE
        assert stream.close_code == 1000

    run(session, test)


def test_a_ticket_is_for_the_run_that_it_was_made_for(
    session: Session, controller: KubeClient, subresources_answer: None
) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        other = small_vmi()
        other["metadata"]["name"] = "anew"
        await asyncio.to_thread(controller.request, "POST", _VMIS, other)
        status, document = await browser.post("/tickets", {**_SMALL, "name": "anew"})
        assert status == 200
        await asyncio.to_thread(remove, controller, f"{_VMIS}/anew")
        await asyncio.to_thread(controller.request, "POST", _VMIS, other)
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await browser.stream(document["ticket"])
        await asyncio.to_thread(remove, controller, f"{_VMIS}/anew")

    run(session, test)


def test_the_list_comes_over_one_websocket_and_follows(
    session: Session, guest: JsonObject, controller: KubeClient
) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        live = await browser.http.ws_connect(f"{browser.origin}/live", headers={"Origin": browser.origin})
        first = await live.receive_json()
        assert first["all"] is True
        [row] = [row for row in first["rows"] if row["name"] == "small"]
        assert (row["kind"], row["status"], row["node"]) == ("VirtualMachineInstance", "Running", "echo")
        change = {"metadata": {"labels": {"changed": "yes"}}}
        await asyncio.to_thread(
            controller.request, "PATCH", f"{_VMIS}/small", change, None, "application/merge-patch+json"
        )
        second = await live.receive_json()
        assert [row["name"] for row in second["rows"]] == ["small"]
        await live.close()

    run(session, test)


def test_bodies_and_paths_that_are_not_ours_are_refused(session: Session) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        assert (await browser.post("/tickets", [1]))[0] == 400
        assert (await browser.post("/tickets", {**_SMALL, "stream": "portforward/22/tcp"}))[0] == 400
        assert (await browser.post("/tickets", {**_SMALL, "name": "../x"}))[0] == 409
        assert (await browser.post("/tickets", {"x": "y" * 100_000}))[0] == 413
        assert (await browser.post("/vms/default/small/burn", {}))[0] == 404
        # Without the UID that the page has shown.
        assert (await browser.post("/vms/default/small/delete", {}))[0] == 422
        assert (await browser.post("/tickets", {**_SMALL, "takesOver": "yes"}))[0] == 400
        assert (await browser.get("/vms/default/absent"))[0] == 404
        assert (await browser.get("/vms/default/..%2Fx"))[0] == 409
        assert (await browser.get("/static/..%2fconsole_app.py"))[0] == 404

    run(session, test)


def test_a_vm_is_checked_then_made_and_faults_are_told_at_fields(session: Session, admin: KubeClient) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        form = {"source": "image", "image": "local/a:1", "name": "posted", "memory": "128Mi"}
        _, made = await browser.post("/new/manifest", form)
        for step in ("check", "create"):
            assert await browser.post(f"/new/{step}/default", {"yaml": made["yaml"]}) == (
                200,
                {"namespace": "default", "name": "posted"},
            )
        status, document = await browser.post("/new/create/default", {"yaml": made["yaml"]})
        assert (status, document["causes"][0]["field"]) == (409, "name")
        bad = made["yaml"].replace("virtio", "floppy")
        status, document = await browser.post("/new/check/default", {"yaml": bad.replace("posted", "bad")})
        assert (status, document["causes"][0]["path"]) == (422, "spec.template.spec.domain.devices.disks[0].disk.bus")
        status, document = await browser.post("/new/check/default", {"yaml": "a: ["})
        assert (status, document["causes"][0]["field"]) == (422, "yaml")
        assert (await browser.post("/new/check/elsewhere", {"yaml": made["yaml"]}))[0] == 404
        assert (await browser.post("/new/check/default", {"yaml": "x" * 600_000}))[0] == 413
        _, choices = await browser.get("/new/choices/default")
        assert "types" in choices

    run(session, test)
    remove(admin, "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/posted")


@pytest.mark.parametrize(
    "source",
    [
        {"source": "image", "image": "https://example.org/a.qcow2", "disk": "2Gi"},
        {"source": "image", "image": "local/a:1", "disk": "2Gi", "networks": "lan", "password": "a: b"},
        {"source": "dataSource", "dataSource": "debian", "disk": "2Gi"},
        {"source": "claim", "claim": "root"},
    ],
    ids=["a URL", "an image that is copied", "a DataSource", "a claim"],
)
def test_the_server_takes_what_the_form_makes(session: Session, source: dict[str, str]) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        _, made = await browser.post("/new/manifest", {"name": "checked", **source})
        assert (await browser.post("/new/check/default", {"yaml": made["yaml"]}))[0] == 200

    run(session, test)


def test_a_user_without_the_right_to_list_all_sees_the_own_namespace(
    server: ApiServerUnderTest, session: Session
) -> None:
    stranger = connect(load_kubeconfigs(kubeconfig_paths(server.write_kubeconfig("nobody")), None))
    assert choose_namespace(stranger, None) == stranger.namespace
    assert choose_namespace(session, None) is None
    assert choose_namespace(session, "shop") == session.namespace


def test_others_on_this_machine_who_hold_connections_keep_the_user_out_of_nothing(session: Session) -> None:
    async def test(browser: Browser) -> None:
        await browser.sign_in()
        address = URL(browser.origin)
        held = [await asyncio.open_connection(address.host, address.port) for _ in range(MOST_UNKNOWN + 50)]
        try:
            assert (await browser.get("/who"))[0] == 200
            # The first of them have given way.
            assert await asyncio.wait_for(held[0][0].read(), 20) == b""
        finally:
            for _, writer in held:
                writer.transport.abort()

    run(session, test)
