# Tests: kvedge/standalone/agent/container/cgroups.py, kvedge/standalone/agent/container/container_user.py
# Tests: kvedge/standalone/agent/container/probe_rules.py, kvedge/standalone/agent/container/seccomp_filter.py
# Tests: kvedge/standalone/agent/pod/place/device_manager.py, kvedge/standalone/agent/pod/pod_checks.py
# Tests: kvedge/standalone/agent/pod/place/resolv_conf.py
"""The smaller pure parts of the agent: what is supported, users, resolvers, probes, cgroup hierarchies, filters."""

from __future__ import annotations

import errno
import struct
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.types.core import (
    Container,
    Pod,
    PodResourceClaim,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    Sysctl,
)
from kvedge.runtime.mount_table import parse_mounts
from kvedge.standalone.agent.container.cgroups import find_hierarchies
from kvedge.standalone.agent.container.container_user import ContainerUser, UserError, container_user
from kvedge.standalone.agent.container.probe_rules import ProbeHistory, probe_settings, take_answer
from kvedge.standalone.agent.container.seccomp_filter import filter_code
from kvedge.standalone.agent.pod.place.device_manager import device_requests
from kvedge.standalone.agent.pod.place.resolv_conf import pod_resolv_conf
from kvedge.standalone.agent.pod.pod_checks import rejection
from tests.support.builders import plain_pod as pod


def _with(container: dict[str, Any] | None = None, **spec: Any) -> Pod:
    made = pod(**spec)
    for key, value in (container or {}).items():
        setattr(made.spec.containers[0], key, value)
    return made


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(_with(), id="a plain Pod"),
        pytest.param(
            _with(
                security_context=PodSecurityContext(
                    sysctls=[Sysctl(name="net.ipv4.ip_unprivileged_port_start", value="0")]
                )
            ),
            id="the launcher's sysctl",
        ),
        pytest.param(_with({"readiness_probe": {"httpGet": {"port": 80}}}), id="an http probe"),
        pytest.param(_with({"liveness_probe": {"exec": {"command": ["x"]}}}), id="an exec probe"),
    ],
)
def test_what_is_supported_is_not_rejected(made: Pod) -> None:
    assert rejection(made) is None


@pytest.mark.parametrize(
    ("made", "reason", "words"),
    [
        pytest.param(
            _with(resource_claims=[PodResourceClaim(name="cards", resource_claim_name="cards")]),
            "UnsupportedPodSpec",
            "nothing allocates devices to claims on one box",
            id="claims on devices",
        ),
        pytest.param(
            _with(security_context=PodSecurityContext(sysctls=[Sysctl(name="kernel.panic", value="1")])),
            "SysctlForbidden",
            "kernel.panic",
            id="a sysctl of the host",
        ),
        pytest.param(
            _with(security_context=PodSecurityContext(sysctls=[Sysctl(name="net.ipv4.../../../x", value="1")])),
            "SysctlForbidden",
            "not allowlisted",
            id="a sysctl that is a path",
        ),
        pytest.param(
            _with(
                host_network=True,
                security_context=PodSecurityContext(sysctls=[Sysctl(name="net.ipv4.tcp_syncookies", value="1")]),
            ),
            "SysctlForbidden",
            "host net",
            id="a sysctl in the host's network",
        ),
        pytest.param(
            _with({"security_context": SecurityContext(privileged=True)}),
            "UnsupportedPodSpec",
            "privileged",
            id="privileged",
        ),
        pytest.param(
            _with({"security_context": SecurityContext(seccomp_profile=SeccompProfile(type="Localhost"))}),
            "UnsupportedPodSpec",
            "seccomp",
            id="a seccomp profile of the host",
        ),
        pytest.param(
            _with({"liveness_probe": {"grpc": {"port": 1}}}),
            "UnsupportedPodSpec",
            "only exec, httpGet and tcpSocket liveness probes",
            id="a grpc probe",
        ),
        pytest.param(pod("c", init=("i",)), "UnsupportedPodSpec", "restartable", id="a restartable init container"),
    ],
)
def test_what_is_not_supported_is_said(made: Pod, reason: str, words: str) -> None:
    for container in made.spec.init_containers:
        container.restart_policy = "Always"
    found = rejection(made)

    assert found is not None
    assert found.reason == reason
    assert words in found.message


def _user(
    tree: Path, image_user: str, own: SecurityContext | None = None, shared: PodSecurityContext | None = None
) -> ContainerUser:
    made = pod(security_context=shared)
    return container_user(made, Container(name="c", security_context=own), image_user, tree)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\nbroken:x:abc:1::/:/\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nstaff:x:50:\n")
    return tmp_path


def test_the_container_s_user_wins_over_the_pod_s_and_both_over_the_image_s(tree: Path) -> None:
    shared = PodSecurityContext(run_as_user=107, run_as_group=108, fs_group=109, supplemental_groups=[1, 108])

    assert _user(tree, "web", None, shared) == ContainerUser(107, 108, (108, 1, 109))
    assert _user(tree, "web", SecurityContext(run_as_user=5), shared) == ContainerUser(5, 108, (108, 1, 109))
    assert _user(tree, "web") == ContainerUser(33, 34, (34,))
    assert _user(tree, "web:staff") == ContainerUser(33, 50, (50,))
    assert _user(tree, "33") == ContainerUser(33, 34, (34,))
    assert _user(tree, "999:7") == ContainerUser(999, 7, (7,))
    assert _user(tree, "") == ContainerUser(0, 0, (0,))


@pytest.mark.parametrize("name", ["nobody", "web:nogroup", "broken", "99999999999", "2147483648"])
def test_an_image_s_user_that_is_none_is_refused(tree: Path, name: str) -> None:
    with pytest.raises(UserError):
        _user(tree, name)


def test_run_as_non_root_is_the_kubelet_s_check(tree: Path) -> None:
    shared = PodSecurityContext(run_as_non_root=True)

    assert _user(tree, "33", None, shared).uid == 33
    with pytest.raises(UserError, match="image will run as root"):
        _user(tree, "", None, shared)
    with pytest.raises(UserError, match="non-numeric user"):
        _user(tree, "web", None, shared)
    with pytest.raises(UserError, match="as root"):
        _user(tree, "33", SecurityContext(run_as_user=0), shared)


def test_a_passwd_file_that_is_a_link_to_the_host_s_is_not_read(tree: Path) -> None:
    (tree / "etc/passwd").unlink()
    (tree / "etc/passwd").symlink_to("/etc/passwd")

    with pytest.raises(UserError, match="daemon"):
        _user(tree, "daemon")


_HOST = "nameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch lan home\noptions edns0\n"


def test_a_pod_without_wishes_gets_the_host_s_servers_but_not_its_loopback() -> None:
    assert pod_resolv_conf(pod(), _HOST) == (
        "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch lan home\noptions edns0\n"
    )


@pytest.mark.parametrize("policy", ["", "ClusterFirst"])
def test_a_pod_asks_the_box_s_server_alone_where_there_is_one(policy: str) -> None:
    found = pod_resolv_conf(pod(dns_policy=policy), _HOST, "10.99.0.1")
    assert found.splitlines() == [
        "nameserver 10.99.0.1",
        "search ns.svc.cluster.local svc.cluster.local cluster.local lan home",
        "options ndots:5 edns0",
    ]


@pytest.mark.parametrize(
    ("spec", "server"),
    [
        ({"dns_policy": "Default"}, "192.0.2.1"),
        ({"host_network": True}, "192.0.2.1"),
        ({"host_network": True, "dns_policy": "ClusterFirstWithHostNet"}, "10.99.0.1"),
    ],
    ids=["by policy", "with the host's network", "with both"],
)
def test_a_pod_with_the_host_s_network_asks_the_host_s_servers(spec: dict[str, Any], server: str) -> None:
    assert pod_resolv_conf(pod(**spec), _HOST, "10.99.0.1").splitlines()[0] == f"nameserver {server}"


def test_a_pod_s_own_servers_come_first_and_alone_when_it_says_so() -> None:
    own = {
        "nameservers": ["198.51.100.1"],
        "searches": ["a"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "debug"}],
    }

    assert pod_resolv_conf(pod(dns_config=own, dns_policy="None"), _HOST) == (
        "nameserver 198.51.100.1\nsearch a\noptions ndots:2 debug\n"
    )
    assert pod_resolv_conf(pod(dns_config=own), _HOST).splitlines()[0] == "nameserver 198.51.100.1"
    many = {"nameservers": [f"198.51.100.{number}" for number in range(1, 9)]}
    assert pod_resolv_conf(pod(dns_config=many), _HOST).count("nameserver") == 3


def test_servers_that_a_pod_cannot_reach_take_no_place_of_others() -> None:
    host = "nameserver 2001:db8::1\nnameserver 2001:db8::2\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\n"

    assert pod_resolv_conf(pod(), host) == "nameserver 192.0.2.1\n"
    assert pod_resolv_conf(pod(host_network=True), host).count("2001:db8::") == 2


def test_a_host_without_a_resolver_gives_an_empty_file() -> None:
    assert pod_resolv_conf(pod(), "") == ""


def test_a_probe_changes_its_mind_only_after_a_row_of_equal_answers() -> None:
    settings = probe_settings({"periodSeconds": 5, "successThreshold": 2, "failureThreshold": 3})
    history = ProbeHistory(due=0.0)
    verdicts = []
    for number, passed in enumerate([True, True, False, False, True, False, False, False, True, True]):
        before = history.passed
        changed = take_answer(history, settings, passed, float(number))
        verdicts.append(history.passed)
        assert changed == (history.passed is not before)

    assert verdicts == [None, True, True, True, True, True, True, False, False, True]
    assert history.due == 14.0


def test_a_probe_s_numbers_have_kubernetes_defaults() -> None:
    found = probe_settings({})

    assert (found.initial_delay, found.period, found.timeout, found.successes, found.failures) == (0, 10, 1, 1, 3)
    assert found.grace is None
    assert probe_settings({"terminationGracePeriodSeconds": 0}).grace == 0


_BOTH = r"""
31 25 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 25 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
34 25 0:30 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
35 25 0:31 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
36 25 0:32 / /odd\040place rw,relatime - cgroup cgroup rw,pids
37 25 0:33 / / rw - ext4 /dev/vda rw
"""


def test_mounts_are_found_below_a_directory_whatever_its_letters() -> None:
    text = r"""
1 0 0:1 / / rw - ext4 /dev/vda rw
2 1 0:2 / /data\040dir/café/pods/a rw - tmpfs tmpfs rw,size=1k
3 1 0:3 / /data\040directory rw - tmpfs tmpfs rw
broken line
"""
    found = [mount.target for mount in parse_mounts(text)]

    assert found == [Path("/"), Path("/data dir/café/pods/a"), Path("/data directory")]


def test_hierarchies_of_both_versions_are_found_and_those_of_no_use_are_not() -> None:
    found = {str(item.path): item.controllers for item in find_hierarchies(_BOTH)}

    assert found == {
        "/sys/fs/cgroup/unified": frozenset(),
        "/sys/fs/cgroup/cpu,cpuacct": frozenset({"cpu", "cpuacct"}),
        "/sys/fs/cgroup/memory": frozenset({"memory"}),
        "/sys/fs/cgroup/systemd": frozenset({"name=systemd"}),
        "/odd place": frozenset({"pids"}),
    }
    assert find_hierarchies("") == ()


def _run_filter(machine: str, architecture: int, number: int, argument: int = 0) -> int:
    """Interprets the filter for one system call, as the kernel would."""
    data = struct.pack("=iIQQ", number, architecture, 0, argument)
    code = list(struct.iter_unpack("=HBBI", filter_code(machine)))
    accumulator, position = 0, 0
    while True:
        operation, if_true, if_false, value = code[position]
        position += 1
        match operation:
            case 0x20:
                accumulator = struct.unpack_from("=I", data, value)[0]
            case 0x06:
                return int(value)
            case 0x15:
                position += if_true if accumulator == value else if_false
            case 0x35:
                position += if_true if accumulator >= value else if_false
            case 0x45:
                position += if_true if accumulator & value else if_false


_REFUSED = 0x50000 | errno.EPERM
_ALLOWED = 0x7FFF0000


@pytest.mark.parametrize(
    ("machine", "architecture", "number", "argument", "verdict"),
    [
        ("x86_64", 0xC000003E, 0, 0, _ALLOWED),
        ("x86_64", 0xC000003E, 165, 0, _REFUSED),
        ("x86_64", 0xC000003E, 435, 0, 0x50000 | errno.ENOSYS),
        ("x86_64", 0xC000003E, 56, 0x10000000, _REFUSED),
        ("x86_64", 0xC000003E, 56, 0x3D0F00, _ALLOWED),
        ("x86_64", 0xC000003E, 0x40000000 | 165, 0, _REFUSED),
        ("x86_64", 0x40000003, 165, 0, 0x80000000),
        ("aarch64", 0xC00000B7, 40, 0, _REFUSED),
        ("aarch64", 0xC00000B7, 220, 0x20000, _REFUSED),
        ("aarch64", 0xC00000B7, 63, 0, _ALLOWED),
    ],
)
def test_the_filter_refuses_what_it_should_on_both_machines(
    machine: str, architecture: int, number: int, argument: int, verdict: int
) -> None:
    assert _run_filter(machine, architecture, number, argument) == verdict


def test_devices_are_the_resources_with_a_foreign_domain() -> None:
    limits: dict[str, str | int] = {
        "devices.kubevirt.io/kvm": "1",
        "memory": "1Gi",
        "hugepages-2Mi": "2Mi",
        "requests.kubernetes.io/x": 1,
        "example.com/gpu": 2,
    }

    assert device_requests(limits) == {"devices.kubevirt.io/kvm": 1, "example.com/gpu": 2}
