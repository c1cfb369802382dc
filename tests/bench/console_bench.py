"""Measures the web console with many VMs in Chromium: time to the pages, their size, and what it costs the api role.

    python -m tests.bench.console_bench [--vms 1000]

Needs chromium. The API server is the embedded one, in this process; the console is that of `kvedge api`, a process of
its own. VMs and VMIs are objects: no guest runs. One browser is Chromium, the others are played: a session each, with
the list's websocket open.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import aiohttp
import psutil

from kvedge import web
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.access.authorizer_rules import APIS
from tests.bench.process_memory import cpu_seconds, memory_of
from tests.bench.report import Goal, Report, Row, missed
from tests.support.api_servers import EmbeddedServer
from tests.support.builders import small_vmi, vm_of
from tests.support.chromium import Page, chromium_page
from tests.support.ports import free_port
from tests.support.waiting import wait_until

_GROUP: Final = "/apis/kubevirt.io/v1/namespaces/default"
_CORE: Final = "/api/v1/namespaces/default"
_BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_MERGE: Final = "application/merge-patch+json"
# A user has eight sessions.
_USERS: Final = 4
_BROWSERS: Final = 20
_SETTLE_SECONDS: Final = 5.0
_CHANGES: Final = 100
# As many have a line in the list; the filter finds the others.
_MOST_LINES: Final = 250
_ROWS: Final = "document.querySelectorAll('tbody tr').length"


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/console_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--vms", type=int, default=1000, help="how many VMs there are, each with a VMI (1000)")
    count = parser.parse_args().vms
    report = Report()
    _add_bundle(report)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        server = EmbeddedServer(directory)
        server.start()
        try:
            # What nodes report of their VMIs is believed of a role only.
            admin = KubeClient.from_kubeconfig(server.write_kubeconfig("simulated-nodes", [APIS, "system:masters"]))
            with _run_api(server, directory) as (process, port):
                tokens = [_make_user(admin, f"user{number}") for number in range(_USERS)]
                _make_vms(admin, count)
                asyncio.run(_measure(report, admin, process, port, tokens, directory, count))
            admin.close()
        finally:
            server.stop()
    report.notes.append(f"load {os.getloadavg()[0]:.1f} at the end; {os.cpu_count()} CPUs, shared with Chromium")
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _add_bundle(report: Report) -> None:
    files = [path for path in (Path(web.__file__).parent / "static").rglob("*") if path.is_file()]
    packed = sum(len(gzip.compress(path.read_bytes())) for path in files)
    report.add(Row("all pages, gzipped", "KiB", packed / 1024, goal=Goal(most=1024)))


@contextlib.contextmanager
def _run_api(server: EmbeddedServer, directory: Path) -> Iterator[tuple[psutil.Process, int]]:
    port, kubeconfig = free_port(), server.write_kubeconfig("kvedge-api", ["system:masters"])
    given = [f"--data-dir={directory / 'api'}", f"--kubeconfig={kubeconfig}", "--api-address=127.0.0.1:0"]
    command = [sys.executable, "-m", "kvedge", "api", *given, f"--console-address=127.0.0.1:{port}"]
    with (directory / "api.log").open("wb") as log, subprocess.Popen(command, stderr=log, stdout=log) as process:
        try:
            authority = directory / "api" / "state" / "console" / "ca.crt"
            wait_until(authority.exists, "the console has its authority")
            admin = KubeClient.from_kubeconfig(kubeconfig)
            wait_until(lambda: _knows_vms(admin), "VMs are known")
            admin.close()
            yield psutil.Process(process.pid), port
        finally:
            process.terminate()
            process.wait(30)


def _knows_vms(admin: KubeClient) -> bool:
    document = vm_of(small_vmi())
    document["spec"]["runStrategy"] = "Halted"
    with contextlib.suppress(Exception):
        admin.request("POST", f"{_GROUP}/virtualmachines", document, {"dryRun": "All"})
        return True
    return False


def _make_user(admin: KubeClient, name: str) -> str:
    """An administrator's token."""
    admin.request("POST", f"{_CORE}/serviceaccounts", {"metadata": {"name": name}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    admin.request("POST", _BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    return str(admin.request("POST", f"{_CORE}/serviceaccounts/{name}/token", {"spec": {}})["status"]["token"])


def _make_vms(admin: KubeClient, count: int) -> None:
    def make(number: int) -> None:
        name = f"vm-{number:04}"
        document = vm_of(small_vmi())
        document["metadata"]["name"] = name
        document["spec"]["runStrategy"] = "Halted"
        admin.request("POST", f"{_GROUP}/virtualmachines", document)
        admin.request("POST", f"{_GROUP}/virtualmachineinstances", _vmi(name))
        admin.request("PATCH", f"{_GROUP}/virtualmachineinstances/{name}", _status(number), None, _MERGE)
        told = {"status": {"printableStatus": "Running", "ready": True, "created": True}}
        admin.request("PATCH", f"{_GROUP}/virtualmachines/{name}/status", told, None, _MERGE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(count)))


def _vmi(name: str) -> JsonObject:
    document = small_vmi()
    document["metadata"]["name"] = name
    return document


def _status(number: int) -> JsonObject:
    address = f"10.42.{number >> 8}.{number & 255}"
    status = {"phase": "Running", "nodeName": f"node-{number % 5}", "conditions": []}
    return {"status": {**status, "interfaces": [{"name": "default", "ipAddress": address, "ipAddresses": [address]}]}}


async def _measure(
    report: Report, admin: KubeClient, process: psutil.Process, port: int, tokens: list[str], place: Path, count: int
) -> None:
    await asyncio.sleep(_SETTLE_SECONDS)
    alone = memory_of([process]).pss
    report.add(Row("api role without a browser: PSS", "MB", alone))
    origin = f"https://127.0.0.1:{port}"
    browser = place / "browser"
    browser.mkdir()
    async with chromium_page(browser, "--ignore-certificate-errors") as page:
        await _sign_in(page, origin, tokens[0])
        await page.wait(f"{_ROWS} === {min(count, _MOST_LINES)}", "VMs are listed")
        await _measure_list(report, page, origin, admin, process, count)
        await asyncio.sleep(_SETTLE_SECONDS)
        one = memory_of([process]).pss
        report.add(Row(f"one browser on {count} VMs: PSS more", "MB", one - alone, goal=Goal(most=15)))
        await _measure_overview(report, page, origin)
        await asyncio.sleep(_SETTLE_SECONDS)
        report.add(Row("after its overview", "MB", memory_of([process]).pss - alone, goal=Goal(most=15)))
        await _measure_vm_page(report, page, origin, count)
        await asyncio.sleep(_SETTLE_SECONDS)
        # Its graphs read the metrics: this role then follows all objects for them, as for any other reader.
        report.add(Row("after a VM's page", "MB", memory_of([process]).pss - alone, goal=Goal(most=15)))
        async with _played_browsers(origin, tokens, _BROWSERS - 1):
            await asyncio.sleep(_SETTLE_SECONDS)
            report.add(Row(f"{_BROWSERS} browsers: PSS more", "MB", memory_of([process]).pss - alone))


async def _sign_in(page: Page, origin: str, token: str) -> None:
    await page.open(f"{origin}/")
    await page.wait("document.querySelector('textarea')", "a token is asked for")
    await page.evaluate(f"document.querySelector('textarea').value = {json.dumps(token)}, 0")
    await page.click("button", "Sign in")


async def _measure_list(
    report: Report, page: Page, origin: str, admin: KubeClient, process: psutil.Process, count: int
) -> None:
    begun = time.monotonic()
    await page.open(f"{origin}/")
    await page.wait(f"{_ROWS} === {min(count, _MOST_LINES)}", "VMs are listed")
    report.add(Row("the list, from its address to its last row", "s", time.monotonic() - begun, goal=Goal(most=1)))
    first = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
    report.add(Row("first paint", "s", first / 1000, goal=Goal(most=1)))
    await _add_page_size(report, page, "the list")
    # The last one is drawn last.
    name = f"vm-{min(count, _MOST_LINES) - 1:04}"
    seen = "[...document.querySelectorAll('tbody tr')].at(-1).innerText.includes('moved')"
    begun = time.monotonic()
    _patch(admin, name, {"nodeName": "moved"})
    await page.wait(seen, "the change is shown")
    report.add(Row("a change, until it is shown", "s", time.monotonic() - begun, goal=Goal(most=1)))
    await page.evaluate(_WATCH_WORK)
    used, begun = cpu_seconds([process]), time.monotonic()
    for number in range(_CHANGES):
        await asyncio.to_thread(_patch, admin, f"vm-{number % count:04}", {"nodeName": f"again-{number}"})
    spent = time.monotonic() - begun
    await page.wait(f"document.body.innerText.includes('again-{_CHANGES - 1}')", "all changes are shown")
    report.add(Row(f"{_CHANGES} changes in {spent:.1f} s: api role's CPU", "s", cpu_seconds([process]) - used))
    report.add(Row("the page's longest task meanwhile", "ms", await page.evaluate("window.longest")))
    await page.evaluate("document.querySelector('input[type=search]').focus(), window.longest = 0, 0")
    begun = time.monotonic()
    await page.type("vm-0007")
    await page.wait(f"{_ROWS} === 1", "one is left")
    report.add(Row("a filter, until one row is left", "s", time.monotonic() - begun, goal=Goal(most=0.5)))


# A task of the page that lasts longer than 50 ms is told of.
_WATCH_WORK: Final = """window.longest = 0, new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask" }), 0"""


async def _measure_overview(report: Report, page: Page, origin: str) -> None:
    begun = time.monotonic()
    await page.open("about:blank")
    await page.open(f"{origin}/#/overview")
    await page.wait("document.querySelector('meter, main dl dd')?.innerText", "the overview is drawn")
    report.add(Row("the overview, from its address", "s", time.monotonic() - begun, goal=Goal(most=2)))
    await _add_page_size(report, page, "the overview")


async def _measure_vm_page(report: Report, page: Page, origin: str, count: int) -> None:
    await page.open("about:blank")
    begun = time.monotonic()
    await page.open(f"{origin}/#/vm/default/vm-{count // 2:04}")
    await page.wait("document.querySelectorAll('main h2').length > 3", "the VM is drawn")
    report.add(Row("a VM's page, from its address", "s", time.monotonic() - begun, goal=Goal(most=2)))
    button = "[...document.querySelectorAll('main button')].some((one) => one.textContent === 'Attach a disk')"
    await page.wait(button, "what may be done is known")
    report.add(Row("a VM's page, until it offers what may be done", "s", time.monotonic() - begun, goal=Goal(most=3)))
    await _add_page_size(report, page, "a VM's page")


async def _add_page_size(report: Report, page: Page, what: str) -> None:
    nodes = await page.evaluate("document.querySelectorAll('*').length")
    report.add(Row(f"{what}: elements", "", nodes))
    await page.call("HeapProfiler.collectGarbage")
    heap = (await page.call("Runtime.getHeapUsage"))["usedSize"]
    report.add(Row(f"{what}: memory of its scripts", "MB", heap / 1e6))


def _patch(admin: KubeClient, name: str, status: JsonObject) -> None:
    admin.request("PATCH", f"{_GROUP}/virtualmachineinstances/{name}", {"status": status}, None, _MERGE)


@contextlib.asynccontextmanager
async def _played_browsers(origin: str, tokens: list[str], count: int) -> AsyncIterator[None]:
    """Each signs in and has the list's websocket open, of which all is read."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    own = {"Origin": origin, "X-Kvedge-Console": "1"}
    async with contextlib.AsyncExitStack() as stack:
        readers = []
        for number in range(count):
            jar = aiohttp.CookieJar(unsafe=True)
            connector = aiohttp.TCPConnector(ssl=tls)
            http = await stack.enter_async_context(
                aiohttp.ClientSession(headers=own, cookie_jar=jar, connector=connector)
            )
            # The first user has Chromium.
            token = tokens[1 + number % (len(tokens) - 1)]
            async with http.post(f"{origin}/sign-in", json={"credential": token}) as answer:
                assert answer.status == 200, await answer.text()
            live = await stack.enter_async_context(http.ws_connect(f"{origin}/live", max_msg_size=0))
            readers.append(asyncio.create_task(_read_all(live)))
        yield
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _read_all(live: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in live:
        continue


if __name__ == "__main__":
    sys.exit(main())
