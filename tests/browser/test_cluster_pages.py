"""Nodes, volumes, networks, tasks, alarms and a guest's graphs in a browser."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.alarms.alarm_record import AlarmRecord, make_config
from kvedge.resources.alarms.alarm_rules import RULES
from kvedge.resources.alarms.alarm_state import Alarm, State
from kvedge.resources.codec import JsonObject, encode, encode_json
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.usage.guest_history import CPUS, WAIT, GuestHistory
from kvedge.resources.usage.guest_stats import GuestStats, NodeStats
from tests.browser.test_console import is_faultless
from tests.support.api_role_fixtures import EchoNode, remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.chromium import Page, chromium_page
from tests.support.kvedge_cli import KvedgeCli

_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
_CONFIGS = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps"
_MIGRATIONS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancemigrations"
_NODES = "/api/v1/nodes"
_HOSTILE = "<img src=x>\u202e"


def make_namespace(admin: KubeClient) -> None:
    """Where the controller writes."""
    try:
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": SYSTEM_NAMESPACE}})
    except AlreadyExists:
        return


async def open_page(page: Page, link: str, name: str) -> None:
    """By its link."""
    await page.open(link)
    await page.click("nav a", name)
    await page.wait(f"document.querySelector('h1')?.textContent === '{name}'", f"{name} are shown")


def test_nodes_volumes_and_alarms_are_shown(admin: KubeClient, guest: JsonObject, link: str, tmp_path: Path) -> None:
    make_namespace(admin)
    rule = next(iter(RULES))
    alarm = Alarm(rule, "kubevirt.io/v1", "VirtualMachine", "default", "small", "u", State.FIRING, "", message=_HOSTILE)
    admin.request("POST", _CONFIGS, encode(make_config(AlarmRecord([alarm]))))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    admin.request("POST", _CLAIMS, {"metadata": {"name": "kept"}, "spec": spec})

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Nodes")
            await page.wait_text("echo")
            await page.click("nav a", "Volumes")
            await page.wait_text("3Gi")
            await page.click("nav a", "Alarms")
            await page.wait_text(RULES[rule].remedy)
            assert "<img src=x>" in await page.text()
            assert await page.evaluate("document.images.length") == 0
            await page.click("td a", "small")
            await page.wait_text("default/small")
            is_faultless(page, link)

    asyncio.run(test())
    admin.request("DELETE", f"{_CLAIMS}/kept")
    admin.request("DELETE", f"{_CONFIGS}/kvedge-alarms")


def test_networks_and_tasks_are_shown_and_a_migration_is_cancelled(
    admin: KubeClient, server: ApiServerUnderTest, guest: JsonObject, link: str, viewer_link: str, tmp_path: Path
) -> None:
    program = KvedgeCli(server.write_kubeconfig("admin", ["system:masters"]))
    program.run("network", "create", "lan")
    # The guest could go there.
    node = {"name": "second", "labels": {"kubevirt.io/schedulable": "true"}}
    admin.request("POST", _NODES, {"apiVersion": "v1", "kind": "Node", "metadata": node})
    about = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration"}
    admin.request("POST", _MIGRATIONS, {**about, "metadata": {"name": "away"}, "spec": {"vmiName": "small"}})
    assert json.loads(program.run("tasks", "-o", "json"))[0]["about"] == "small"
    assert program.run("tasks", "-A").split()[:3] == ["NAMESPACE", "TASK", "NAME"]

    async def look() -> None:
        async with chromium_page(tmp_path / "viewer") as page:
            await open_page(page, viewer_link, "Tasks")
            await page.wait_text("migration")
            assert await page.evaluate("[...document.querySelectorAll('td button')].every(each => each.hidden)")
            is_faultless(page, viewer_link)

    async def test() -> None:
        async with chromium_page(tmp_path / "admin") as page:
            await open_page(page, link, "Networks")
            await page.wait_text("isolated")
            await page.click("nav a", "Tasks")
            await page.wait("document.querySelector('td button:not([hidden])')", "it can be cancelled")
            await page.click("td button", "Cancel")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            await page.click("dialog button", "Stay")
            await page.wait_text("default/small stays")
            # Its controller would take it down now.
            await page.wait_text("is being ended")
            assert await page.evaluate("document.querySelectorAll('td button').length") == 0
            is_faultless(page, link)

    for name in ("viewer", "admin"):
        (tmp_path / name).mkdir()
    asyncio.run(look())
    asyncio.run(test())
    remove(admin, f"{_MIGRATIONS}/away")
    admin.request("DELETE", f"{_NODES}/second")
    program.run("network", "delete", "lan")


def test_a_guest_that_runs_has_graphs(guest: JsonObject, echo_node: EchoNode, link: str, tmp_path: Path) -> None:
    figures = {"cpu.time": 1_500_000_000, "balloon.current": 65536, "balloon.rss": 65536}
    stats = GuestStats(namespace="default", name="small", answered=True, complete=True, figures=figures)
    echo_node.door.stats_answer = encode_json(NodeStats(guests=[stats]))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.click("a", "small")
            await page.wait_text("used 64 MiB")
            await page.wait_text("used 0%")
            await page.wait("document.querySelectorAll('figure svg').length === 4", "four graphs")
            await page.wait("document.querySelector('polyline')", "a line is drawn")
            is_faultless(page, link)

    asyncio.run(test())


def test_what_a_guest_has_used_is_drawn_with_its_gaps(
    guest: JsonObject, echo_node: EchoNode, viewer_link: str, tmp_path: Path
) -> None:
    series: dict[str, list[float | None]] = {CPUS: [0.1, 0.2, None, 0.5, 0.25, None], WAIT: [0.0, 0.1] * 3}
    echo_node.door.answer = encode(GuestHistory(span="day", step=300, end=1_800_000_000, series=series))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(viewer_link)
            await page.click("a", "small")
            choose = "const choice = document.querySelector('select'); choice.value = 'day'"
            await page.wait("document.querySelector('select')", "spans can be chosen")
            await page.evaluate(f"{{ {choose}; choice.dispatchEvent(new Event('change')); }} 0")
            await page.wait_text("used 25%, waiting 10%, at most 100%")
            drawn = "document.querySelector('figure').querySelectorAll('polyline.line-0').length"
            assert await page.evaluate(drawn) == 2
            is_faultless(page, viewer_link)

    asyncio.run(test())
