"""Which of a node's kubeconfigs are kvedge's own, and when each is renewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml

from kvedge.appliance.cluster.renewal_plan import renew_cluster, role_certificate
from kvedge.appliance.host.layout import RENEWAL_TIMER, Layout, list_enabled_units, role_units
from kvedge.appliance.host.unit_files import unit_texts
from kvedge.appliance.install.install_plan import plan_install, plan_way_back
from kvedge.appliance.install.install_steps import Remove, Systemctl
from kvedge.client.users.user_manifest import NewUser, kubeconfig_manifest, role_user
from kvedge.kube.kubeconfigs.own_kubeconfig import NotOursError
from kvedge.runtime.tls.certificates import LEAF_LIFE, CertificateAuthority, LeafRequest
from tests.support.values import replace
from tests.unit.appliance.install.test_install_plan import EMPTY

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CLUSTER = {"server": "https://192.0.2.1:6443", "certificate-authority-data": "Y2E="}
AUTHORITY = CertificateAuthority.create("cluster", NOW)


def kubeconfig(user: NewUser, life: timedelta = LEAF_LIFE) -> bytes:
    leaf = AUTHORITY.issue(LeafRequest(user.name, list(user.groups), life=life), NOW)
    return yaml.safe_dump(kubeconfig_manifest(user, CLUSTER, leaf.certificate, leaf.key)).encode()


@pytest.mark.parametrize(("role", "node"), [("api", ""), ("controller", ""), ("handler", "n1")])
def test_a_roles_own_kubeconfig_tells_user_group_end_and_server(role: str, node: str) -> None:
    made = role_user(role, node, 365)
    found = role_certificate(role, kubeconfig(made), NOW)
    assert (found.user, (found.group,), found.end, found.cluster) == (made.name, made.groups, NOW + LEAF_LIFE, CLUSTER)


def test_it_is_due_in_the_last_third_of_its_life_and_after_its_end() -> None:
    text = kubeconfig(role_user("api", "", 365))
    due = [role_certificate("api", text, NOW + timedelta(days=days)).is_due for days in (0, 240, 245, 364, 400)]
    assert due == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "has no certificate inside"),
        (b"a: [", "is no kubeconfig of one user"),
        (b"a: \xff", "is no kubeconfig of one user"),
        (b"users: []\nclusters: []\n", "is no kubeconfig of one user"),
        (b"users: [{name: kvedge:api, user: {token: x}}]\nclusters: [{cluster: {}}]\n", "has no certificate inside"),
        (
            b"users: [{name: a, user: {client-certificate-data: eA==}}]\nclusters: [{cluster: {}}]\n",
            "is no kubeconfig of one user",
        ),
        (kubeconfig(role_user("controller", "", 365)), "is of kvedge:controller, not of the api"),
        (kubeconfig(NewUser("kvedge:api", ("system:masters",))), "is of kvedge:api, not of the api"),
        (kubeconfig(NewUser("ann")), "is of ann, not of the api"),
    ],
    ids=["empty", "no YAML", "no text", "no user", "a token", "no PEM", "another role", "another group", "a person"],
)
def test_what_kvedge_has_not_made_for_this_role_is_left_alone(text: bytes, why: str) -> None:
    with pytest.raises(NotOursError, match=why):
        role_certificate("api", text, NOW)


def test_a_handlers_is_one_that_names_a_node() -> None:
    with pytest.raises(NotOursError):
        role_certificate("handler", kubeconfig(NewUser("kvedge:handler:", ("kvedge:handlers",))), NOW)
    with pytest.raises(NotOursError):
        role_certificate("handler", kubeconfig(NewUser("system:node:n1", ("system:nodes",))), NOW)


def test_the_server_stays_and_the_authority_is_the_clusters_of_now() -> None:
    admins = {"server": "https://127.0.0.1:6443", "certificate-authority-data": "bmV3"}
    assert renew_cluster(CLUSTER, admins) == {**CLUSTER, "certificate-authority-data": "bmV3"}
    assert renew_cluster(CLUSTER, {"server": "https://127.0.0.1:6443"}) == CLUSTER


LAYOUT = Layout()
UNITS = unit_texts(role_units("server"))


def test_a_server_has_a_timer_that_is_enabled_and_the_service_behind_it_is_not() -> None:
    assert {"kvedge-renew.service", RENEWAL_TIMER} <= set(role_units("server"))
    assert RENEWAL_TIMER in list_enabled_units("server")
    assert "kvedge-renew.service" not in list_enabled_units("server")
    for role in ("standalone", "agent"):
        assert RENEWAL_TIMER not in role_units(role)


def test_a_timer_that_has_changed_is_read_anew_and_one_of_another_role_goes() -> None:
    texts = [step.text for step in plan_install(EMPTY, LAYOUT, "server", UNITS, b"")]
    assert f"systemctl restart {RENEWAL_TIMER}" in texts
    agent = unit_texts(role_units("agent"))
    facts = replace(EMPTY, units=UNITS)
    assert f"systemctl restart {RENEWAL_TIMER}" not in [
        step.text for step in plan_install(facts, LAYOUT, "server", UNITS, b"")
    ]
    left = plan_install(facts, LAYOUT, "agent", agent, b"")
    stopped = left.index(Systemctl(("disable", "--now", "--quiet", RENEWAL_TIMER)))
    assert left[stopped + 1] == Remove(LAYOUT.units / RENEWAL_TIMER)


def test_going_back_to_a_version_without_the_timer_stops_it() -> None:
    facts = replace(EMPTY, units=UNITS, installed_digest="new")
    previous = {name: text for name, text in UNITS.items() if "renew" not in name}
    steps = plan_way_back(facts, LAYOUT, "server", previous, "old")
    stopped = steps.index(Systemctl(("disable", "--now", "--quiet", RENEWAL_TIMER)))
    assert stopped < steps.index(Remove(LAYOUT.units / RENEWAL_TIMER))
    # What shuts guests down when it is stopped is never stopped on the way.
    assert not [step for step in steps if isinstance(step, Systemctl) and "guests" in step.text]
