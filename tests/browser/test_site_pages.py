"""Settings and users in a browser: shown in words, changed by those who may, read by the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.browser.chromium import chromium_page
from tests.browser.test_cluster_pages import make_namespace, open_page
from tests.browser.test_console import is_faultless
from tests.browser.test_vm_page import replace
from tests.support.api_role_fixtures import remove

_KUBEVIRTS = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
_MERGE = "application/merge-patch+json"


@pytest.fixture
def kubevirt(admin: KubeClient, subresources_answer: None) -> Iterator[str]:
    """The path of the KubeVirt object, with two settings."""
    make_namespace(admin)
    path = f"{_KUBEVIRTS}/kubevirt"
    spec = {
        "configuration": {
            "developerConfiguration": {"featureGates": ["ObjectGraph"]},
            "migrations": {"parallelMigrationsPerCluster": 3},
        }
    }
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    try:
        admin.request("POST", _KUBEVIRTS, {**kind, "spec": spec})
    except AlreadyExists:
        admin.request("PATCH", path, {"spec": spec}, None, _MERGE)
    yield path
    admin.request("PATCH", path, {"spec": {"configuration": None}}, None, _MERGE)


def test_settings_are_told_in_words_and_changed_after_they_were_shown(
    admin: KubeClient, kubevirt: str, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Settings")
            await page.wait_text("Migrations at once, in all")
            await page.wait_text("ObjectGraph")
            await page.click("summary", "YAML")
            await page.click("button", "Edit")
            await page.wait("document.querySelector('textarea.code')?.value", "it can be changed")
            await replace(page, "parallelMigrationsPerCluster: 3", "parallelMigrationsPerCluster: 4")
            await page.click("button", "Show the changes")
            await page.wait_text("The server would make these changes")
            found = admin.request("GET", kubevirt)["spec"]["configuration"]["migrations"]
            assert found["parallelMigrationsPerCluster"] == 3
            await page.click("button", "Apply")
            await page.wait("document.querySelector('table').innerText.includes('4')", "it is shown as it is now")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", kubevirt)["spec"]["configuration"]["migrations"]["parallelMigrationsPerCluster"] == 4


def test_a_role_is_given_and_taken_away(
    admin: KubeClient, subresources_answer: None, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Users")
            await page.wait_text("You are admin.")
            await page.fill("Name", "ann")
            await page.tab_to("Give")
            await page.press("Enter")
            await page.wait_text("ann has kubevirt.io:view in default")
            await page.wait("document.querySelector(\"[aria-label='Take kubevirt.io:view away from ann']\")", "listed")
            [given] = admin.request("GET", _BINDINGS)["items"]
            assert given["metadata"]["labels"] == {"kvedge.io/user": "ann"}
            assert given["roleRef"]["name"] == "kubevirt.io:view"
            await page.click("td button", "Take away")
            await page.click("dialog button", "Take away")
            await page.wait_text("ann has lost kubevirt.io:view in default")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", _BINDINGS)["items"] == []


def test_a_viewer_sees_who_has_a_role_and_gives_none(admin: KubeClient, viewer_link: str, tmp_path: Path) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubevirt.io:edit"}
    subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "<img src=x>\u202e"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "team"}}
    admin.request("POST", _BINDINGS, {**kind, "roleRef": role, "subjects": [subject]})

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, viewer_link, "Users")
            await page.wait_text("<img src=x>")
            assert await page.evaluate("document.images.length") == 0
            assert await page.evaluate("document.querySelectorAll('td button, fieldset').length") == 0
            is_faultless(page, viewer_link)

    asyncio.run(test())
    remove(admin, f"{_BINDINGS}/team")
