"""Where things are on a node of a cluster: by the operator, by the kubelet that runs, by the distribution."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kvedge.appliance.host.distributions import DISTRIBUTIONS, Distribution
from kvedge.appliance.host.kubelet_facts import KubeletFacts, find_running_kubelet, kubelet_facts
from kvedge.appliance.host.node_places import NodePlaces, node_places
from kvedge.runtime.settings import Settings

BY_NAME = {item.name: item for item in DISTRIBUTIONS}
K3S, K0S, KUBEADM = BY_NAME["k3s"], BY_NAME["k0s"], BY_NAME["kubeadm"]
PLAIN = KubeletFacts("/srv/kubelet", "unix:///run/cd/containerd.sock", "Edge-7")


def found(
    settings: Settings | None = None,
    distribution: Distribution | None = None,
    kubelet: KubeletFacts | None = None,
    *there: str,
) -> NodePlaces:
    return node_places(settings or Settings(), distribution, kubelet, lambda path: str(path) in there)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            "/usr/bin/kubelet --root-dir=/srv/kubelet --container-runtime-endpoint unix:///run/cd/containerd.sock"
            " --hostname-override=Edge-7",
            PLAIN,
            id="with and without an equals sign",
        ),
        pytest.param("/usr/bin/kubelet", KubeletFacts(), id="nothing said"),
        pytest.param("kubelet --root-dir=/a --root-dir=/b", KubeletFacts("/b"), id="the last one counts"),
        pytest.param("/hyperkube kubelet --root-dir=/a", KubeletFacts("/a"), id="inside another program"),
        pytest.param("kubelet --kubeconfig=/k --root-dir", KubeletFacts(kubeconfig="/k"), id="cut off"),
        pytest.param("grep kubelet-x --root-dir=/a", None, id="another program"),
        pytest.param("vi /etc/kubelet/config", None, id="a file of a like name"),
    ],
)
def test_a_kubelet_is_read_by_its_command_line(words: str, expected: KubeletFacts | None) -> None:
    assert kubelet_facts(words.split()) == expected


def _add_process(directory: Path, words: list[str], namespace: str, users: str = "0\t0\t0\t0") -> None:
    (directory / "ns").mkdir(parents=True)
    (directory / "status").write_text(f"Name:\t{words[0]}\nUid:\t{users}\n")
    (directory / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    (directory / "ns/pid").symlink_to(namespace)


def test_the_kubelet_that_runs_is_found_among_all_processes_but_those_of_containers(tmp_path: Path) -> None:
    hostile = ["kubelet", "--root-dir=/var/lib/kubelet/pods/1/volumes"]
    for pid, words in {"1": ["/sbin/init"], "60": hostile, "70": ["kubelet", "--root-dir=/a"]}.items():
        _add_process(tmp_path / pid, words, "pid:[9]" if words is hostile else "pid:[1]")
    (tmp_path / "71").mkdir()
    _add_process(tmp_path / "self", ["kvedge"], "pid:[1]")
    assert find_running_kubelet(tmp_path) == KubeletFacts("/a")
    (tmp_path / "70/cmdline").write_bytes(b"")
    assert find_running_kubelet(tmp_path) is None


def test_a_program_of_root_s_that_a_user_calls_a_kubelet_is_none(tmp_path: Path) -> None:
    _add_process(tmp_path / "70", ["kubelet", "--root-dir=/tmp/mine"], "pid:[1]", "1000\t0\t0\t0")
    _add_process(tmp_path / "self", ["kvedge"], "pid:[1]")
    assert find_running_kubelet(tmp_path) is None


def test_a_server_of_k3s_has_its_places_from_the_distribution() -> None:
    places = found(None, K3S, None, "/var/lib/rancher/k3s/agent", "/var/lib/rancher/k3s/server/manifests")
    assert places == NodePlaces(
        socket.gethostname().lower(),
        Path("/var/lib/kubelet"),
        Path("/var/lib/rancher/k3s/agent/images"),
        Path("/var/lib/rancher/k3s/server/manifests"),
        ("k3s", "ctr", "images", "import"),
        Path("/var/lib/rancher/k3s/agent/kubelet.kubeconfig"),
    )
    # An agent has no manifests.
    assert found(None, K3S, None, "/var/lib/rancher/k3s/agent").manifests is None


@pytest.mark.parametrize(
    ("settings", "distribution", "kubelet", "expected"),
    [
        (Settings(node_kubeconfig="/own"), K3S, KubeletFacts(kubeconfig="/k"), "/own"),
        (Settings(), KUBEADM, KubeletFacts(kubeconfig="/k"), "/k"),
        (Settings(), KUBEADM, PLAIN, "/etc/kubernetes/kubelet.conf"),
        (Settings(), K0S, None, "/var/lib/k0s/kubelet.conf"),
        (Settings(), None, PLAIN, None),
    ],
    ids=["the operator's", "the running kubelet's", "kubeadm's", "k0s's", "nowhere"],
)
def test_a_node_speaks_by_its_kubelets_kubeconfig(
    settings: Settings, distribution: Distribution | None, kubelet: KubeletFacts | None, expected: str | None
) -> None:
    assert found(settings, distribution, kubelet).kubeconfig == (Path(expected) if expected else None)


def test_nothing_is_ever_put_among_the_manifests_of_a_distribution_that_deletes_with_the_file() -> None:
    assert found(None, K0S, None, "/var/lib/k0s", "/var/lib/k0s/manifests").manifests is None


def test_a_plain_kubelet_tells_its_places_by_itself() -> None:
    places = found(None, None, PLAIN)
    assert (places.node, places.kubelet) == ("edge-7", Path("/srv/kubelet"))
    assert places.load == ("ctr", "--address", "/run/cd/containerd.sock", "--namespace", "k8s.io", "images", "import")
    assert (places.images, places.manifests) == (None, None)
    assert found(None, KUBEADM, PLAIN).load == places.load


def test_a_tool_of_the_distributions_own_is_used_as_it_is() -> None:
    assert found(None, K0S, PLAIN).load == ("k0s", "ctr", "images", "import")


def test_a_runtime_that_is_no_containerd_is_the_operators_to_load() -> None:
    assert found(None, None, KubeletFacts(endpoint="unix:///run/crio/crio.sock")).load == ()
    assert found().load == ()


def test_what_the_operator_sets_wins_over_all() -> None:
    settings = Settings(
        kubelet_dir="/k", containerd_socket="/c.sock", images_dir="/i", manifests_dir="/m", node_name="mine"
    )
    places = found(settings, K3S, PLAIN)
    assert (places.node, places.kubelet, places.images, places.manifests) == (
        "mine",
        Path("/k"),
        Path("/i"),
        Path("/m"),
    )
    assert places.load[:3] == ("ctr", "--address", "/c.sock")
