"""Settings and users in a browser: shown in words, changed by those who may, read by the others, refused with words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.browser.accessibility import findings
from tests.browser.conftest import console
from tests.browser.test_cluster_pages import make_namespace, open_page
from tests.browser.test_console import is_faultless
from tests.browser.test_vm_page import replace
from tests.support.api_role_fixtures import remove
from tests.support.api_servers import ApiServerUnderTest
from tests.support.chromium import Page, chromium_page

_KUBEVIRTS = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"
_RBAC = "rbac.authorization.k8s.io"
_CLUSTER = f"/apis/{_RBAC}/v1"
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
        admin.request("PATCH", path, {"spec": spec}, None, _MERGE)
    except NotFound:
        admin.request("POST", _KUBEVIRTS, {**kind, "spec": spec})
    yield path
    admin.request("PATCH", path, {"spec": {"configuration": None}}, None, _MERGE)


@pytest.fixture
def clerk_link(server: ApiServerUnderTest, admin: KubeClient, subresources_answer: None) -> Iterator[str]:
    """Somebody who writes down who has which role, and has none."""
    verbs = ["get", "list", "create", "delete"]
    rules = [{"apiGroups": [_RBAC], "resources": ["rolebindings"], "verbs": verbs}]
    about = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": "browser-clerk"}}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "browser-clerk"}
    subject = {"apiGroup": _RBAC, "kind": "User", "name": "clerk"}
    admin.request("POST", f"{_CLUSTER}/clusterroles", {**about, "kind": "ClusterRole", "rules": rules})
    given = {**about, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
    admin.request("POST", f"{_CLUSTER}/clusterrolebindings", given)
    with console(server.write_kubeconfig("clerk")) as printed:
        yield printed
    for kind in ("clusterrolebindings", "clusterroles"):
        admin.request("DELETE", f"{_CLUSTER}/{kind}/browser-clerk")


def binding(name: str, subjects: list[JsonObject]) -> JsonObject:
    """One of the role `edit`."""
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "kubevirt.io:edit"}
    kind = {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": {"name": name}}
    return {**kind, "roleRef": role, "subjects": subjects}


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


def assert_refused(page: Page, status: int) -> None:
    """Nothing else went wrong than that the console has answered so."""
    assert page.faults, "nothing was refused"
    assert all(f"status of {status}" in fault for fault in page.faults), page.faults


async def begin_edit(page: Page) -> None:
    """With the settings as they are now."""
    await page.click("summary", "YAML")
    await page.click("button", "Edit")
    await page.wait("document.querySelector('textarea.code')?.value", "it can be changed")


async def faults_of(page: Page) -> str:
    """What the list of faults says."""
    await page.wait("document.querySelector('.faults:not([hidden])')", "it is refused")
    return str(await page.evaluate("document.querySelector('.faults').innerText"))


def test_a_viewer_reads_the_settings_and_is_offered_no_change(kubevirt: str, viewer_link: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, viewer_link, "Settings")
            await page.wait_text("Migrations at once, in all")
            await page.wait_text("You may not change the settings.")
            await page.click("summary", "YAML")
            await page.wait_text("parallelMigrationsPerCluster: 3")
            offered = "[...document.querySelectorAll('main button')].filter((each) => each.checkVisibility()).length"
            assert await page.evaluate(offered) == 0
            is_faultless(page, viewer_link)

    asyncio.run(test())


def test_settings_that_somebody_else_changed_meanwhile_are_not_written_over(
    admin: KubeClient, kubevirt: str, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Settings")
            await begin_edit(page)
            await replace(page, "parallelMigrationsPerCluster: 3", "parallelMigrationsPerCluster: 4")
            await page.click("button", "Show the changes")
            await page.wait_text("The server would make these changes")
            changed = {"spec": {"configuration": {"migrations": {"parallelMigrationsPerCluster": 7}}}}
            admin.request("PATCH", kubevirt, changed, None, _MERGE)
            await page.click("button", "Apply")
            assert "the object has been modified" in await faults_of(page)
            # What was typed is not lost.
            assert "PerCluster: 4" in str(await page.evaluate("document.querySelector('textarea.code').value"))
            assert_refused(page, 409)

    asyncio.run(test())
    assert admin.request("GET", kubevirt)["spec"]["configuration"]["migrations"]["parallelMigrationsPerCluster"] == 7


def test_a_configuration_that_cannot_be_is_refused_with_its_field(
    admin: KubeClient, kubevirt: str, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Settings")
            await begin_edit(page)
            await replace(page, "parallelMigrationsPerCluster: 3", "parallelMigrationsPerCluster: many")
            await page.click("button", "Show the changes")
            said = await faults_of(page)
            assert "spec.configuration.migrations.parallelMigrationsPerCluster" in said
            await replace(page, "parallelMigrationsPerCluster: many", "parallelMigrationsPerCluster: 3")
            await replace(page, "  migrations:", "  evictionStrategy: Sometimes\n    migrations:")
            await page.click("button", "Show the changes")
            await page.wait("document.querySelector('.faults').innerText.includes('Sometimes')", "it is refused")
            assert 'supported values: "External", "LiveMigrate"' in await faults_of(page)
            assert await page.evaluate("document.querySelector('button.main').disabled")
            assert_refused(page, 422)

    asyncio.run(test())
    assert "evictionStrategy" not in admin.request("GET", kubevirt)["spec"]["configuration"]


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
    subject = {"kind": "Group", "apiGroup": _RBAC, "name": "<img src=x>\u202e"}
    admin.request("POST", _BINDINGS, binding("team", [subject]))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, viewer_link, "Users")
            await page.wait_text("<img src=x>")
            assert await page.evaluate("document.images.length") == 0
            assert await page.evaluate("document.querySelectorAll('td button, fieldset').length") == 0
            is_faultless(page, viewer_link)

    asyncio.run(test())
    remove(admin, f"{_BINDINGS}/team")


async def give(page: Page, kind: str, name: str) -> None:
    """The role `view`, by the form."""
    await page.wait("document.querySelector('fieldset select')", "the form is there")
    await page.evaluate(f"document.querySelector('fieldset select').value = '{kind}', 0")
    await page.fill("Name", name)
    await page.click("button", "Give")


def test_a_bad_name_is_told_at_its_field(admin: KubeClient, link: str, tmp_path: Path) -> None:
    fault = "document.querySelector('[aria-invalid]')?.parentElement.querySelector('.fault').textContent"
    bad = {
        "": ("User", "this is needed"),
        "system:admin": ("User", "names of users that begin with system: or kvedge: are taken"),
        "Ann": ("ServiceAccount", "write the name of a ServiceAccount, or NAMESPACE/NAME, in small letters"),
    }

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Users")
            for name, (kind, words) in bad.items():
                await give(page, kind, name)
                await page.wait(f"{fault} === {json.dumps(words)}", words)
                assert await page.evaluate("document.activeElement.hasAttribute('aria-invalid')")
                assert await page.evaluate("document.querySelector('.faults').hidden")
            assert_refused(page, 422)

    asyncio.run(test())
    assert admin.request("GET", _BINDINGS)["items"] == []


def test_groups_and_service_accounts_get_roles(admin: KubeClient, link: str, tmp_path: Path) -> None:
    subjects = {
        "oidc:staff/till": {"kind": "Group", "apiGroup": _RBAC, "name": "oidc:staff/till"},
        "https://issuer/#ann": {"kind": "User", "apiGroup": _RBAC, "name": "https://issuer/#ann"},
        "robot": {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
        "shop/robot": {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"},
    }

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Users")
            for name, subject in subjects.items():
                await give(page, subject["kind"], name)
                await page.wait(
                    f"document.querySelector('[aria-label=\"Take kubevirt.io:view away from {name}\"]')", name
                )
            given = [each["subjects"] for each in admin.request("GET", _BINDINGS)["items"]]
            assert sorted(map(str, given)) == sorted(str([each]) for each in subjects.values())
            for name in subjects:
                await page.click(f"[aria-label='Take kubevirt.io:view away from {name}']")
                await page.click("dialog button", "Take away")
                await page.wait_text(f"{name} has lost kubevirt.io:view in default")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", _BINDINGS)["items"] == []


def test_of_several_who_have_a_role_by_one_binding_one_loses_it(admin: KubeClient, link: str, tmp_path: Path) -> None:
    subjects = [{"kind": "User", "apiGroup": _RBAC, "name": name} for name in ("ann", "bob", "cyd")]
    admin.request("POST", _BINDINGS, binding("team", subjects))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, link, "Users")
            await page.click("[aria-label='Take kubevirt.io:edit away from bob']")
            await page.click("dialog button", "Take away")
            await page.wait_text("bob has lost kubevirt.io:edit in default")
            await page.wait(
                "!document.querySelector('[aria-label=\"Take kubevirt.io:edit away from bob\"]')", "it goes"
            )
            is_faultless(page, link)

    asyncio.run(test())
    left = admin.request("GET", f"{_BINDINGS}/team")["subjects"]
    assert [each["name"] for each in left] == ["ann", "cyd"]
    remove(admin, f"{_BINDINGS}/team")


def test_who_has_no_role_gives_none_and_takes_none_that_others_share(
    admin: KubeClient, clerk_link: str, tmp_path: Path
) -> None:
    """The clerk may write and delete bindings, and has none of the roles."""
    subjects = [{"kind": "User", "apiGroup": _RBAC, "name": name} for name in ("ann", "bob")]
    admin.request("POST", _BINDINGS, binding("team", subjects))
    admin.request("POST", _BINDINGS, binding("alone", [{"kind": "User", "apiGroup": _RBAC, "name": "cyd"}]))

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await open_page(page, clerk_link, "Users")
            await page.wait_text("You are clerk.")
            await page.wait("document.querySelector('td button')", "the roles are listed")
            offered = "[...document.querySelectorAll('td button')].map((each) => each.ariaLabel)"
            assert await page.evaluate(offered) == ["Take kubevirt.io:edit away from cyd"]
            await give(page, "User", "dan")
            await page.wait_text("you may not give it: nobody gives more than they have there")
            assert await page.evaluate("document.activeElement.labels[0].textContent") == "Role"
            assert_refused(page, 422)

    asyncio.run(test())
    assert {each["metadata"]["name"] for each in admin.request("GET", _BINDINGS)["items"]} == {"alone", "team"}
    for name in ("alone", "team"):
        remove(admin, f"{_BINDINGS}/{name}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_while_settings_and_roles_are_changed(
    kubevirt: str, link: str, axe: str, tmp_path: Path, scheme: str
) -> None:
    found: dict[str, list[str]] = {}

    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            await open_page(page, link, "Settings")
            await page.wait_text("Migrations at once, in all")
            await begin_edit(page)
            await replace(page, "parallelMigrationsPerCluster: 3", "parallelMigrationsPerCluster: 4")
            await page.click("button", "Show the changes")
            await page.wait_text("The server would make these changes")
            found["settings that are changed"] = await findings(page, axe)
            await replace(page, "parallelMigrationsPerCluster: 4", "parallelMigrationsPerCluster: many")
            await page.click("button", "Show the changes")
            await faults_of(page)
            found["settings that are refused"] = await findings(page, axe)
            await page.click("nav a", "Users")
            await give(page, "User", "system:admin")
            await page.wait_text("are taken")
            found["a name that is refused"] = await findings(page, axe)
            await give(page, "User", "ann")
            await page.click("td button", "Take away")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            found["a question"] = await findings(page, axe)
            await page.click("dialog button", "Take away")
            await page.wait_text("ann has lost")
            assert_refused(page, 422)

    asyncio.run(test())
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_settings_and_roles_are_changed_by_the_keyboard_alone(
    admin: KubeClient, kubevirt: str, link: str, tmp_path: Path
) -> None:
    async def test() -> None:
        async with chromium_page(tmp_path) as page:
            await page.open(link)
            await page.wait_text("Sign out")
            await page.tab_to("Settings")
            await page.press("Enter")
            await page.wait_text("Migrations at once, in all")
            await page.tab_to("YAML")
            await page.press("Enter")
            await page.wait_text("parallelMigrationsPerCluster: 3")
            await page.tab_to("Edit")
            await page.press("Enter")
            await page.wait("document.activeElement.matches('textarea.code')", "it can be written")
            # The keyboard's place is the manifest's end.
            await page.type("  uninstallStrategy: RemoveWorkloads\n")
            await page.tab_to("Show the changes")
            await page.press("Enter")
            await page.wait("document.activeElement.textContent === 'Apply'", "it can be applied")
            await page.press("Enter")
            await page.wait_text("What uninstalling does while there are VMs")
            await page.wait("document.activeElement.textContent === 'Edit'", "the keyboard goes on from there")
            await page.tab_to("Users")
            await page.press("Enter")
            await page.wait("document.querySelector('fieldset')", "the form is there")
            await page.tab_to("Name")
            await page.type("ann")
            await page.tab_to("Give")
            await page.press("Enter")
            await page.wait("document.querySelector('td button')", "it is listed")
            await page.tab_to("Take kubevirt.io:view away from ann")
            await page.press("Enter")
            await page.wait("document.querySelector('dialog[open]')", "it is asked")
            await page.tab_to("Take away")
            await page.press("Enter")
            await page.wait_text("ann has lost kubevirt.io:view in default")
            is_faultless(page, link)

    asyncio.run(test())
    assert admin.request("GET", kubevirt)["spec"]["uninstallStrategy"] == "RemoveWorkloads"
    assert admin.request("GET", _BINDINGS)["items"] == []
    admin.request("PATCH", kubevirt, {"spec": {"uninstallStrategy": None}}, None, _MERGE)
