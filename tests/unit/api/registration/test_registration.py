# Tests: kvedge/api/registration/registration_manifest.py, kvedge/api/registration/controller_restriction_manifest.py
# Tests: kvedge/api/registration/admission_manifest.py, kvedge/api/registration/webhook_manifest.py
# Tests: kvedge/api/registration/document.py
# Tests: kvedge/api/registration/node_restriction_manifest.py, kvedge/api/registration/registration_plan.py
"""What the api role writes of itself, and when it writes again."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from kvedge.api.registration import registration_manifest as manifest
from kvedge.api.registration.admission_manifest import mutating_webhooks, validating_webhooks
from kvedge.api.registration.clone_manifest import clone_webhooks
from kvedge.api.registration.controller_restriction_manifest import controller_restriction
from kvedge.api.registration.node_restriction_manifest import node_restriction
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.api.registration.registration_plan import newer_serves, plan_beside_newer, plan_forward, plan_write
from kvedge.resources.data_volume_names import WORKER_CONTAINER
from kvedge.resources.disks.exports import EXPORTER_CONTAINER
from kvedge.resources.disks.snapshot_names import LAST_RESTORE
from kvedge.resources.names import VERSION
from kvedge.resources.types.protection.backup_job import BACKUP_CONTAINER

ENDPOINT = Endpoint("192.0.2.7", 8443, "node1")
SECRET = "5ec2e7"


def webhooks() -> list[dict[str, Any]]:
    return mutating_webhooks(b"CA", SECRET).body["webhooks"] + validating_webhooks(b"CA", SECRET).body["webhooks"]


def test_no_webhook_is_called_for_a_subresource_but_evictions() -> None:
    rules = [rule for webhook in webhooks() for rule in webhook["rules"]]
    assert {resource for rule in rules for resource in rule["resources"]} == {
        "pods",
        "virtualmachines",
        "virtualmachineinstances",
        "virtualmachineinstancereplicasets",
        "virtualmachineinstancepresets",
        "virtualmachineinstancemigrations",
        "migrationpolicies",
        "virtualmachinepools",
        "virtualmachinesnapshots",
        "virtualmachinerestores",
        "virtualmachineexports",
        "virtualmachineclones",
        "virtualmachinesnapshotschedules",
        "backuprepositories",
        "backupruns",
        "backuprestores",
        "virtualmachineinstancetypes",
        "virtualmachineclusterinstancetypes",
        "virtualmachinepreferences",
        "virtualmachineclusterpreferences",
        "backuptasks",
        "backupschedules",
        "virtualmachinebackups",
        "virtualmachinebackuptrackers",
        "backuptests",
        "kubevirts",
        "datavolumes",
        "datasources",
        "network-attachment-definitions",
        "pods/eviction",
    }


def test_webhooks_that_ask_or_write_are_at_secret_paths_and_others_at_plain_ones() -> None:
    hooks = [*webhooks(), *clone_webhooks(b"CA", SECRET, serves=True).body["webhooks"]]
    known = {hook["clientConfig"]["service"]["path"] for hook in hooks}
    assert known == {
        "/mutate",
        "/validate",
        "/mutate-vm/5ec2e7",
        "/validate-vm/5ec2e7",
        "/validate-kubevirt/5ec2e7",
        "/validate-migration/5ec2e7",
        "/validate-eviction/5ec2e7",
        "/validate-backup-source/5ec2e7",
        "/datavolume-mutate/5ec2e7",
    }


def test_evictions_of_pods_of_others_do_not_wait_for_us() -> None:
    hooks = [hook for hook in webhooks() if hook["rules"][0]["resources"] == ["pods/eviction"]]
    assert [hook["matchConditions"][0]["expression"] for hook in hooks] == [
        "request.name.startsWith('virt-launcher-')",
        "request.name.startsWith('hp-volume-')",
    ]
    assert {(hook["failurePolicy"], hook["sideEffects"]) for hook in hooks} == {("Fail", "NoneOnDryRun")}


def test_where_cdi_is_installed_its_kinds_are_not_judged_by_us() -> None:
    known = manifest.documents(ENDPOINT, b"CA", SECRET, judges_data_volumes=False)
    rules = [rule for item in known for webhook in item.body.get("webhooks") or () for rule in webhook["rules"]]
    assert {group for rule in rules for group in rule["apiGroups"]} == {
        "",
        "kubevirt.io",
        "pool.kubevirt.io",
        "migrations.kubevirt.io",
        "snapshot.kubevirt.io",
        "export.kubevirt.io",
        "clone.kubevirt.io",
        "instancetype.kubevirt.io",
        "snapshot.kvedge.io",
        "backup.kvedge.io",
        "backup.kubevirt.io",
        "k8s.cni.cncf.io",
    }


@pytest.mark.parametrize("is_box", [True, False])
def test_one_box_judges_all_networks_and_a_cluster_those_that_speak_to_us(is_box: bool) -> None:
    known = validating_webhooks(b"CA", SECRET, joins_all_networks=is_box).body["webhooks"]
    (found,) = [each for each in known if each["name"].startswith("network-attachment-definition")]
    assert found["failurePolicy"] == "Ignore", "the VM says it once more"
    expressions = [each["expression"] for each in found["matchConditions"]]
    assert any("'\"kvedge\"'" in text for text in expressions) == (not is_box)


def test_a_delete_depends_on_no_webhook_and_only_one_that_asks_for_it_is_judged() -> None:
    [webhook] = [webhook for webhook in webhooks() if "DELETE" in webhook["rules"][0]["operations"]]
    assert (webhook["rules"][0]["resources"], webhook["rules"][0]["operations"]) == (["kubevirts"], ["DELETE"])
    assert webhook["failurePolicy"] == "Ignore"
    [condition] = webhook["matchConditions"]
    assert "oldObject.spec.uninstallStrategy == 'BlockUninstallIfWorkloadsExist'" in condition["expression"]


@pytest.mark.parametrize("webhook", webhooks(), ids=lambda webhook: webhook["name"])
def test_what_is_being_deleted_waits_for_nobody(webhook: dict[str, Any]) -> None:
    fails_updates = webhook["failurePolicy"] == "Fail" and "UPDATE" in webhook["rules"][0]["operations"]
    expressions = [condition["expression"] for condition in webhook.get("matchConditions", [])]
    # A VMI's status stays guarded to its end; that letting go of it does not wait is a contract test.
    let_by = ("!has(object.metadata.deletionTimestamp)", "!has(object.metadata.deletionTimestamp) || object.spec != ")
    assert not fails_updates or any(text.startswith(let_by) for text in expressions)


@pytest.mark.parametrize(
    "webhook",
    [
        webhook
        for webhook in webhooks()
        if webhook["rules"][0]["resources"] == ["virtualmachineinstances"]
        and "UPDATE" in webhook["rules"][0]["operations"]
        and webhook["failurePolicy"] == "Fail"
    ],
    ids=lambda webhook: webhook["name"],
)
def test_a_roles_write_of_a_status_waits_for_nobody(webhook: dict[str, Any]) -> None:
    names = ("not-by-kvedge-itself", "not-a-report-of-kvedge-itself")
    [condition] = [item for item in webhook["matchConditions"] if item["name"] in names]
    assert re.search(r"kvedge:controllers.*kvedge:handlers", condition["expression"])


def test_names_of_webhooks_are_those_of_kubevirt_or_ours() -> None:
    names = [webhook["name"] for webhook in webhooks()]
    assert len(set(names)) == len(names)
    assert all(name.endswith((".kubevirt.io", ".kvedge.io")) for name in names)


def test_the_readme_says_of_each_webhook_what_becomes_of_a_write_without_it() -> None:
    readme = (Path(__file__).parents[4] / "kvedge/api/README.md").read_text()
    table = readme.partition("while the api role is away |\n")[2].partition("\n\n")[0]
    told = {}
    for row in table.splitlines():
        names, _, policy = row.strip("| ").split(" | ") if " | " in row else ("", "", "")
        for name in re.findall(r"`([a-z{},-]+)`", names):
            head, _, rest = name.partition("{")
            middles, _, tail = rest.partition("}")
            told |= {f"{head}{middle}{tail}": policy for middle in middles.split(",")}
    hooks = [*webhooks(), *clone_webhooks(b"CA", SECRET, serves=True).body["webhooks"]]
    assert told == {hook["name"].partition(".")[0]: hook["failurePolicy"] for hook in hooks}


def test_webhooks_come_last_as_writes_depend_on_them() -> None:
    kinds = [document.body["kind"] for document in manifest.documents(ENDPOINT, b"CA", SECRET)]
    assert kinds[-2:] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_endpoints_hold_all_instances() -> None:
    slices = [manifest.endpoint_slice(Endpoint(f"192.0.2.{n}", 8443 + n, f"node{n}")).body for n in (2, 1)]
    subsets = manifest.endpoints(slices).body["subsets"]
    assert [subset["addresses"] for subset in subsets] == [[{"ip": "192.0.2.1"}], [{"ip": "192.0.2.2"}]]
    assert [subset["ports"][0]["port"] for subset in subsets] == [8444, 8445]


def test_instances_do_not_share_a_slice() -> None:
    names = {manifest.endpoint_slice(Endpoint("192.0.2.1", 1, name)).name for name in ("a", "b")}
    assert len(names) == 2


def test_an_ipv6_address_has_a_slice_of_its_own_family() -> None:
    body = manifest.endpoint_slice(Endpoint("2001:db8::1", 1, "a")).body
    assert (body["addressType"], body["metadata"]["name"]) == ("IPv6", "kvedge-api-a-ipv6")


SERVICE = manifest.service().body


def test_what_is_missing_is_created() -> None:
    assert plan_write(SERVICE, None) == SERVICE


def test_what_a_server_adds_is_no_reason_to_write() -> None:
    there = copy.deepcopy(SERVICE)
    there["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    there["spec"] |= {"clusterIP": "10.0.0.1", "sessionAffinity": "None"}
    assert plan_write(SERVICE, there) is None


def test_a_changed_port_is_written_and_what_a_server_added_stays() -> None:
    there = copy.deepcopy(SERVICE)
    there["metadata"]["resourceVersion"] = "1"
    there["spec"] |= {"clusterIP": "10.0.0.1"}
    there["spec"]["ports"][0]["port"] = 1
    written = plan_write(SERVICE, there)
    assert written is not None
    assert written["spec"] == {**SERVICE["spec"], "clusterIP": "10.0.0.1"}
    assert written["metadata"]["resourceVersion"] == "1"


def test_an_item_too_many_is_taken_out() -> None:
    wanted = validating_webhooks(b"CA", SECRET).body
    there = copy.deepcopy(wanted)
    there["webhooks"].append({"name": "foreign"})
    written = plan_write(wanted, there)
    assert written is not None
    assert written["webhooks"] == wanted["webhooks"]


def test_an_empty_list_may_be_left_out_by_a_server() -> None:
    assert plan_write({"subsets": []}, {"metadata": {}}) is None


def released(document: dict[str, Any], version: str, **changes: Any) -> dict[str, Any]:
    """The document as another release has written it."""
    found: dict[str, Any] = copy.deepcopy(document)
    found["metadata"]["annotations"] = {"kvedge.io/version": version}
    return {**found, **changes}


OWN_SLICE = manifest.endpoint_slice(ENDPOINT).body
OTHER_SLICE = manifest.endpoint_slice(Endpoint("192.0.2.8", 8443, "node2")).body


@pytest.mark.parametrize(
    ("slices", "newer"),
    [
        pytest.param([], False, id="alone"),
        pytest.param([OWN_SLICE], False, id="our own"),
        pytest.param([released(OWN_SLICE, "9.9.9")], False, id="what we were before an upgrade was taken back"),
        pytest.param([OTHER_SLICE], False, id="one like us"),
        pytest.param([released(OTHER_SLICE, "0.0.9")], False, id="an older one"),
        pytest.param([released(OTHER_SLICE, "strange")], False, id="one that does not say"),
        pytest.param([OWN_SLICE, released(OTHER_SLICE, "0.10.0")], True, id="a newer one"),
    ],
)
def test_a_newer_one_serves_if_another_instances_slice_says_so(slices: list[dict[str, Any]], newer: bool) -> None:
    assert newer_serves(slices, OWN_SLICE) is newer


@pytest.mark.parametrize(
    "document",
    [validating_webhooks(b"CA", SECRET).body, manifest.api_service("v1", b"CA").body],
    ids=["webhooks", "APIService"],
)
def test_beside_a_newer_one_only_whom_to_trust_is_written(document: dict[str, Any]) -> None:
    theirs = released(document, "9.9.9", theirs=True)
    assert plan_beside_newer(document, None) == document
    assert plan_beside_newer(document, theirs) is None
    assert plan_write(document, theirs) is not None
    kind = document["kind"]
    renewed = validating_webhooks(b"NEW", SECRET) if "Webhook" in kind else manifest.api_service("v1", b"NEW")
    written = plan_beside_newer(renewed.body, theirs)
    assert written is not None
    assert written == released(renewed.body, "9.9.9", theirs=True)


@pytest.mark.parametrize(
    ("version", "written"), [("0.0.9", True), ("0.1.0", True), ("0.10.0", False)], ids=["older", "same", "later"]
)
def test_kinds_of_a_later_release_stay_and_all_others_are_replaced(version: str, written: bool) -> None:
    wanted = released({"metadata": {"name": "a"}, "spec": {"scope": "Namespaced"}}, "0.1.0")
    assert plan_forward(wanted, None) == wanted
    theirs = released({"metadata": {"name": "a"}, "spec": {"scope": "Cluster", "more": 1}}, version)
    replaced = {**wanted, "spec": {"scope": "Namespaced", "more": 1}}
    assert plan_forward(wanted, theirs) == (replaced if written else None)


def test_what_has_nobody_to_trust_is_left_to_the_newer_one() -> None:
    [policy, _] = [document.body for document in controller_restriction()]
    theirs = released(policy, "9.9.9", spec={})
    assert plan_beside_newer(policy, theirs) is None


def test_all_that_may_differ_says_of_which_release_it_is() -> None:
    known = [*manifest.documents(ENDPOINT, b"CA", SECRET), *controller_restriction(), *node_restriction()]
    told = {item.body["kind"] for item in known if (item.body["metadata"].get("annotations") or {}).get(VERSION)}
    assert told == {
        "EndpointSlice",
        "APIService",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
    }


def test_of_a_workers_pod_the_policy_holds_the_container_that_works_to_its_confinement_and_takes_a_proxy() -> None:
    policy = controller_restriction()[0].body
    [confined] = [each["expression"] for each in policy["spec"]["variables"] if each["name"] == "isWorker"]
    works = f"c.name in ['{WORKER_CONTAINER}', '{EXPORTER_CONTAINER}', '{BACKUP_CONTAINER}']"
    containers = f"object.spec.containers.all(c, {works} ? (has(c.securityContext)"
    assert containers in confined, "a proxy of a mesh does not say as whom it runs"
    assert f"object.spec.containers.exists(c, {works})" in confined
    assert "&& !has(object.spec.initContainers)" not in confined
    assert confined.count("'NET_ADMIN'") == 2, "containers and init containers get no other capability"


def test_the_policy_lets_a_restore_in_place_make_the_claim_of_its_volume_and_no_copy() -> None:
    policy = controller_restriction()[0].body
    [made] = [
        each["expression"]
        for each in policy["spec"]["validations"]
        if "to make or touch other claims" in each["message"]
    ]
    claim = f"|| (request.operation == 'CREATE' && '{LAST_RESTORE}' in variables.annotations"
    assert claim in made, "the claims of before are deleted by then"
    kept = made[made.index(claim) :]
    assert "!has(object.spec.dataSource) && !has(object.spec.dataSourceRef)" in kept
    assert "has(object.spec.volumeName) && object.spec.volumeName != ''" in kept
