"""Scheduler and kubelet of one box against its real API, with real containers, namespaces and mounts."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.types.cluster import IpAddress, Lease
from kvedge.resources.types.core import (
    ConfigMap,
    ConfigMapVolume,
    Container,
    EmptyDirVolume,
    EnvVar,
    HostPathVolume,
    ImageVolume,
    Node,
    Pod,
    PodSecurityContext,
    PodVolume,
    ReadinessGate,
    ResourceRequirements,
    Secret,
    SecretVolume,
    SecurityContext,
    VolumeMount,
)
from kvedge.standalone.agent.agent_removal import remove_everything
from kvedge.standalone.agent.container.cgroups import find_hierarchies
from kvedge.storage.image_errors import ImageInUse
from kvedge.storage.images.image_import import import_file
from tests.machine.agent.box import NODE, Box, box, marks
from tests.machine.agent.containers import is_alive
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, busybox: Path) -> Iterator[Box]:
    """One box for all tests that only come and go; afterwards nothing of it is left on the host."""
    data = tmp_path_factory.mktemp("box")
    with box(data, busybox) as made:
        made.start_agent()
        yield made
        config = made.config
    assert marks(config) == []


def _truth(pod: Pod, kind: str) -> str:
    found = condition(pod.status.conditions, kind)
    return found.status if found else ""


def test_the_node_is_there_with_what_the_host_has(shared: Box) -> None:
    node = shared.client.get(Node, "", NODE)

    assert node.metadata.labels["kubernetes.io/hostname"] == NODE
    assert node.metadata.labels["kubernetes.io/arch"] in ("amd64", "arm64")
    assert node.status.capacity["cpu"] == str(os.cpu_count())
    assert int(node.status.allocatable["memory"]) < int(node.status.capacity["memory"])
    assert [item["status"] for item in node.status.conditions if item["type"] == "Ready"] == ["True"]
    assert {item.type for item in node.status.addresses} == {"InternalIP", "Hostname"}
    lease = wait_until(lambda: _lease(shared), "the node's lease")
    assert lease is not None
    assert lease.spec.holder_identity == NODE


def _lease(shared: Box) -> Lease | None:
    try:
        return shared.client.get(Lease, "kube-node-lease", NODE)
    except NotFound:
        return None


def test_a_pod_is_bound_runs_and_tells_all_about_it(shared: Box) -> None:
    shared.create("run", "echo hello; sleep 1000")
    pod = shared.in_phase("run", "Running")

    assert pod.spec.node_name == NODE
    assert [_truth(pod, kind) for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")] == ["True"] * 4
    assert pod.status.pod_ip.startswith("10.243.17.")
    assert [item.ip for item in pod.status.pod_ips] == [pod.status.pod_ip]
    assert pod.status.host_ip
    assert pod.status.qos_class == "BestEffort"
    (container,) = pod.status.container_statuses
    assert (container.ready, container.started, container.restart_count) == (True, True, 0)
    assert container.image_id.startswith("sha256:")
    assert container.container_id.startswith("kvedge://")
    reasons = wait_until(lambda: len(found := [key for key, _ in shared.events("run")]) >= 2 and found, "events")
    assert {"Scheduled", "Started"} <= set(reasons or [])
    # The host reaches it by the Pod's own address: nothing listens there, but somebody says so.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((pod.status.pod_ip, 1), timeout=2)


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")])
def test_a_pod_that_ends_says_how_and_gives_its_place_back(shared: Box, code: int, phase: str, reason: str) -> None:
    name = f"ends-{code}"
    shared.create(name, f"echo last words; exit {code}")
    pod = shared.in_phase(name, phase)

    state = pod.status.container_statuses[0].state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (code, reason)
    assert _truth(pod, "Ready") == "False"
    wait_until(
        lambda: not Path(f"/run/netns/{shared.config.instance}-{pod.metadata.uid}").exists(), "its netns is gone"
    )
    assert shared.said(pod) == "last words\n"


def test_what_a_container_says_is_read_through_the_api_as_it_comes(shared: Box) -> None:
    script = "echo one; echo two; while [ ! -e /data/go ]; do sleep 0.05; done; echo three"
    shared.create("talks", script)
    pod = shared.in_phase("talks", "Running")
    wait_until(lambda: "two" in shared.said(pod), "its first words")
    path = "/api/v1/namespaces/default/pods/talks/log"
    stream = shared.client.lines(path, {"follow": "true", "tailLines": "1"}, accept="*/*")
    lines = iter(stream.lines())
    assert next(lines) == b"two"
    (shared.files(pod).volume("empty-dir", "data") / "go").touch()

    assert list(lines) == [b"three"]
    shared.in_phase("talks", "Succeeded")
    assert list(shared.client.lines(path, {}, accept="*/*").lines()) == [b"one", b"two", b"three"]


def test_deleting_asks_first_and_then_leaves_nothing(shared: Box) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo up; while true; do sleep 0.1; done"
    shared.create("polite", script, termination_grace_period_seconds=30)
    pod = shared.in_phase("polite", "Running")
    wait_until(lambda: "up" in shared.said(pod), "its trap is set")
    log = shared.files(pod).container("c").log.open()
    shared.client.delete(Pod, "default", "polite")
    shared.wait_gone("polite")

    with log:
        assert log.read() == "up\nasked\n"
    assert not shared.files(pod).path.exists()
    assert not Path(f"/run/netns/{shared.config.instance}-{pod.metadata.uid}").exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/kvedge/{shared.config.instance}/{pod.metadata.uid}"))


def test_a_pod_that_does_not_listen_is_killed_with_all_its_children_when_its_time_is_up(shared: Box) -> None:
    shared.create(
        "stubborn", "trap '' TERM; sleep 1001 & while true; do sleep 1; done", termination_grace_period_seconds=1
    )
    pod = shared.in_phase("stubborn", "Running")
    pid = shared.pid(pod)
    child = wait_until(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split(), "its child")
    shared.client.delete(Pod, "default", "stubborn")
    shared.wait_gone("stubborn")

    assert not is_alive(pid)
    assert not any(is_alive(int(one)) for one in child)


def test_a_pod_deleted_by_force_ends_soon_though_its_object_is_gone(shared: Box) -> None:
    shared.create("forced", "trap '' TERM; while true; do sleep 1; done", termination_grace_period_seconds=600)
    pod = shared.in_phase("forced", "Running")
    shared.client.delete(Pod, "default", "forced", grace_seconds=0)
    assert shared.pod("forced") is None

    wait_until(lambda: not shared.files(pod).path.exists(), "its directory is gone")
    assert not is_alive(shared.pid(pod)) if shared.files(pod).container("c").record.exists() else True


def test_a_pod_made_anew_under_the_same_name_is_another_pod(shared: Box) -> None:
    shared.create("again", "sleep 1000")
    first = shared.in_phase("again", "Running")
    shared.client.delete(Pod, "default", "again", grace_seconds=0)
    shared.create("again", "echo second; sleep 1000")
    second = shared.in_phase("again", "Running")

    assert first.metadata.uid != second.metadata.uid
    wait_until(lambda: "second" in shared.said(second), "the second one runs")
    wait_until(lambda: not shared.files(first).path.exists(), "the first one is cleaned up")


def test_volumes_lie_where_the_kubelet_would_have_them(shared: Box, tmp_path: Path) -> None:
    meta = ObjectMeta(name="volumes", namespace="default")
    shared.client.create(Secret(metadata=meta, data={"userdata": base64.b64encode(b"#cloud-config").decode()}))
    shared.client.create(ConfigMap(metadata=meta, data={"key": "value"}))
    (tmp_path / "file").write_text("of the host")
    tmp_path.chmod(0o755)
    names = ("data", "memory", "secret", "config", "host", "image")
    script = (
        "id; ls -ldn /v/data /v/memory; cat /v/secret/userdata /v/config/key /v/host/file; ls /v/image/bin/sh;"
        "echo made > /v/data/file; echo no > /v/secret/x; echo no > /v/image/x; sleep 1000"
    )
    shared.create(
        "volumes",
        script,
        security_context=PodSecurityContext(run_as_user=107, run_as_group=107, fs_group=1234),
        volumes=[
            PodVolume(name="data", empty_dir=EmptyDirVolume()),
            PodVolume(name="memory", empty_dir=EmptyDirVolume(medium="Memory", size_limit="1Mi")),
            PodVolume(name="secret", secret=SecretVolume(secret_name="volumes", default_mode=0o400)),
            PodVolume(name="config", config_map=ConfigMapVolume(name="volumes")),
            PodVolume(name="host", host_path=HostPathVolume(path=str(tmp_path), type="Directory")),
            PodVolume(name="image", image=ImageVolume(reference="busybox", pull_policy="Always")),
        ],
        containers=[
            Container(
                name="c",
                image="busybox",
                command=["sh", "-c", script],
                volume_mounts=[VolumeMount(name=name, mount_path=f"/v/{name}") for name in names],
            )
        ],
    )
    pod = shared.in_phase("volumes", "Running")
    wait_until(lambda: shared.said(pod).count("can't create") == 2, "it has tried everything")
    said = shared.said(pod).splitlines()

    assert said[0] == "uid=107 gid=107 groups=107,1234"
    assert [line.split()[0] for line in said[1:3]] == ["drwxrwsrwx", "drwxrwsrwx"]
    assert "#cloud-configvalueof the host/v/image/bin/sh" in "".join(said)
    volumes = shared.files(pod).path / "volumes"
    made = volumes / "kubernetes.io~empty-dir/data/file"
    assert (made.read_text(), made.stat().st_gid) == ("made\n", 1234)
    secret = volumes / "kubernetes.io~secret/secret"
    assert os.readlink(secret / "userdata") == "..data/userdata"
    assert (secret / "userdata").stat().st_mode & 0o777 == 0o440
    table = Path("/proc/self/mountinfo").read_text()
    assert f"{secret} " in table
    assert f"{volumes}/kubernetes.io~empty-dir/memory " in table
    assert f"{volumes}/kubernetes.io~configmap" not in table

    shared.client.delete(Pod, "default", "volumes", grace_seconds=1)
    shared.wait_gone("volumes")
    assert str(volumes) not in Path("/proc/self/mountinfo").read_text()
    assert (tmp_path / "file").read_text() == "of the host"


def test_a_secret_that_is_not_there_yet_is_waited_for(shared: Box) -> None:
    shared.create("waits", "sleep 1000", volumes=[PodVolume(name="data", secret=SecretVolume(secret_name="later"))])
    found = wait_until(lambda: [text for key, text in shared.events("waits") if key == "FailedMount"], "an event")
    assert 'secret "later" not found' in found[0]
    shared.client.create(Secret(metadata=ObjectMeta(name="later", namespace="default"), data={}))

    shared.in_phase("waits", "Running")


def test_environment_comes_from_values_fields_and_secrets(shared: Box) -> None:
    meta = ObjectMeta(name="env", namespace="default")
    shared.client.create(Secret(metadata=meta, data={"k": base64.b64encode(b"hidden").decode()}))
    script = "echo $NAME $ADDRESS $SECRET $BOTH; cat /etc/hosts"
    shared.create(
        "env",
        script,
        hostname="called",
        containers=[
            Container(
                name="c",
                image="busybox",
                command=["sh", "-c"],
                args=[script],
                env=[
                    EnvVar(name="NAME", value_from={"fieldRef": {"fieldPath": "metadata.name"}}),
                    EnvVar(name="ADDRESS", value_from={"fieldRef": {"fieldPath": "status.podIP"}}),
                    EnvVar(name="SECRET", value_from={"secretKeyRef": {"name": "env", "key": "k"}}),
                    EnvVar(name="BOTH", value="$(NAME)-$$(NAME)-$(NONE)"),
                ],
            )
        ],
        volumes=[],
    )
    pod = shared.in_phase("env", "Succeeded")

    lines = shared.said(pod).splitlines()
    assert lines[0] == f"env {pod.status.pod_ip} hidden env-$(NAME)-$(NONE)"
    assert f"{pod.status.pod_ip}\tcalled" in lines


def test_init_containers_run_one_after_the_other_before_the_others(shared: Box) -> None:
    def step(name: str, script: str) -> Container:
        mounts = [VolumeMount(name="data", mount_path="/data")]
        return Container(name=name, image="busybox", command=["sh", "-c", script], volume_mounts=mounts)

    shared.create(
        "staged",
        "cat /data/log",
        init_containers=[step("one", "echo 1 >> /data/log"), step("two", "sleep 0.2; echo 2 >> /data/log")],
    )
    pod = shared.in_phase("staged", "Succeeded")

    assert shared.said(pod) == "1\n2\n"
    assert [item.ready for item in pod.status.init_container_statuses] == [True, True]


def test_an_init_container_that_fails_ends_the_pod_before_the_others_start(shared: Box) -> None:
    broken = Container(name="broken", image="busybox", command=["sh", "-c", "exit 9"])
    shared.create("unstaged", "echo never", init_containers=[broken])
    pod = shared.in_phase("unstaged", "Failed")

    assert not shared.files(pod).container("c").log.exists()
    assert _truth(pod, "Initialized") == "False"


def test_a_readiness_gate_decides_over_ready(shared: Box) -> None:
    gate = "example.com/gate"
    shared.create("gated", "sleep 1000", readiness_gates=[ReadinessGate(condition_type=gate)])
    pod = shared.in_phase("gated", "Running")
    assert (_truth(pod, "ContainersReady"), _truth(pod, "Ready")) == ("True", "False")

    conditions = [{"type": item.type, "status": item.status} for item in pod.status.conditions]
    body = {"status": {"conditions": [*conditions, {"type": gate, "status": "True"}]}}
    shared.client.patch(Pod, "default", "gated", MergePatch(body), "status")

    wait_until(lambda: (found := shared.pod("gated")) and _truth(found, "Ready") == "True", "Ready")
    found = shared.pod("gated")
    assert found is not None
    assert _truth(found, gate) == "True"


def test_a_readiness_probe_decides_over_a_container_s_readiness(shared: Box) -> None:
    script = "sleep 1; mkdir /tmp/www; httpd -f -p 8080 -h /tmp/www & sleep 1000"
    shared.create(
        "probed",
        script,
        containers=[
            Container(
                name="c",
                image="busybox",
                command=["sh", "-c", script],
                readiness_probe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            )
        ],
        volumes=[],
    )
    pod = shared.in_phase("probed", "Running")
    assert _truth(pod, "Ready") == "False"

    wait_until(lambda: (found := shared.pod("probed")) and _truth(found, "Ready") == "True", "Ready")


def test_an_image_that_nobody_has_waits_with_the_kubelets_reason(shared: Box) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        reference = f"127.0.0.1:{taken.getsockname()[1]}/no/such:1"
    container = Container(name="c", image=reference, command=["true"])
    shared.create("imageless", "", containers=[container], volumes=[])

    def waiting() -> str:
        pod = shared.pod("imageless")
        statuses = pod.status.container_statuses if pod else []
        state = statuses[0].state if statuses else None
        return state.waiting.reason if state and state.waiting else ""

    wait_until(lambda: waiting() == "ErrImagePull", "ErrImagePull")
    wait_until(
        lambda: any(key == "Failed" and "kvedge image import" in text for key, text in shared.events("imageless")),
        "an event with the remedy",
    )
    assert shared.in_phase("imageless", "Pending")


def test_an_image_that_is_imported_later_is_found(shared: Box, busybox: Path) -> None:
    container = Container(name="c", image="local/later:1", image_pull_policy="Never", command=["true"])
    shared.create("later", "", containers=[container], volumes=[])
    wait_until(lambda: any("ErrImageNeverPull" in text for _, text in shared.events("later")), "an event")

    import_file(shared.store, busybox, "local/later:1")

    shared.in_phase("later", "Succeeded")


def test_an_image_in_use_cannot_be_removed_until_its_pod_is_gone(shared: Box, busybox: Path) -> None:
    import_file(shared.store, busybox, "local/held:1")
    container = Container(name="c", image="local/held:1", command=["sleep", "1000"])
    shared.create("holder", "", containers=[container], volumes=[])
    pod = shared.in_phase("holder", "Running")

    with pytest.raises(ImageInUse, match=pod.metadata.uid):
        shared.store.remove("local/held:1")


def test_a_pod_that_does_not_fit_says_why_and_runs_once_it_does(shared: Box) -> None:
    wanted = ResourceRequirements(requests={"memory": "900Gi"})
    container = Container(name="c", image="busybox", command=["true"], resources=wanted)
    shared.create("large", "", containers=[container], volumes=[])
    shared.create("choosy", "true", node_selector={"kvedge.io/test": "yes"})

    def why(name: str) -> str:
        pod = shared.pod(name)
        found = condition(pod.status.conditions, "PodScheduled") if pod else None
        return f"{found.reason}: {found.message}" if found else ""

    wait_until(lambda: why("large") == "Unschedulable: 0/1 nodes are available: 1 Insufficient memory.", why("large"))
    expected = "Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    wait_until(lambda: why("choosy") == expected, "why it waits")
    shared.client.patch(Node, "", NODE, MergePatch({"metadata": {"labels": {"kvedge.io/test": "yes"}}}))

    shared.in_phase("choosy", "Succeeded")


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("restarts", {"restart_policy": "Always"}, "UnsupportedPodSpec"),
        (
            "privileged",
            {"containers": [Container(name="c", image="busybox", security_context=SecurityContext(privileged=True))]},
            "UnsupportedPodSpec",
        ),
    ],
)
def test_a_pod_that_asks_for_what_there_is_not_fails_with_a_reason(
    shared: Box, name: str, changes: dict[str, object], reason: str
) -> None:
    shared.create(name, "true", **changes)
    pod = shared.in_phase(name, "Failed")

    assert pod.status.reason == reason
    assert "not supported" in pod.status.message


def test_a_container_that_must_not_be_root_waits_with_the_reason(shared: Box) -> None:
    shared.create("rootless", "true", security_context=PodSecurityContext(run_as_non_root=True))

    wait_until(lambda: any("image will run as root" in text for _, text in shared.events("rootless")), "an event")

    def reason() -> str:
        pod = shared.pod("rootless")
        states = [item.state for item in pod.status.container_statuses] if pod else []
        return states[0].waiting.reason if states and states[0] and states[0].waiting else ""

    wait_until(lambda: reason() == "CreateContainerConfigError", "the waiting reason")


def test_a_container_that_takes_more_memory_than_its_limit_was_killed_for_that(shared: Box) -> None:
    if not any("memory" in item.controllers or item.unified for item in find_hierarchies(_mounts())):
        pytest.fail("no memory cgroup is mounted on this machine: mount -t cgroup -o memory …")
    greedy = Container(
        name="c",
        image="busybox",
        command=["sh", "-c", "x=0123456789abcdef; while true; do x=$x$x; done"],
        resources=ResourceRequirements(limits={"memory": "32Mi"}),
    )
    shared.create("greedy", "", containers=[greedy], volumes=[])
    state = shared.in_phase("greedy", "Failed").status.container_statuses[0].state

    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (137, "OOMKilled")


def _mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def test_an_address_that_nobody_owns_any_more_is_given_back(shared: Box) -> None:
    shared.create("short", "true")
    pod = shared.in_phase("short", "Succeeded")
    address = shared.client.get(IpAddress, "", pod.status.pod_ip)
    assert address.spec.parent_ref is not None
    assert address.spec.parent_ref.name == "short"


def test_no_two_pods_have_one_address(shared: Box) -> None:
    for number in range(5):
        shared.create(f"many-{number}", "sleep 1000")
    pods = [shared.in_phase(f"many-{number}", "Running") for number in range(5)]

    assert len({pod.status.pod_ip for pod in pods}) == 5
    for pod in pods:
        shared.client.delete(Pod, "default", pod.metadata.name, Preconditions(uid=pod.metadata.uid), grace_seconds=1)


def test_everything_is_removed_on_request_and_nothing_else(tmp_path: Path, busybox: Path) -> None:
    told: list[str] = []
    with box(tmp_path, busybox, "10.243.18.0/24") as made:
        made.start_agent()
        made.create("a", "trap 'exit 0' TERM; while true; do sleep 0.1; done")
        made.create("b", "trap '' TERM; while true; do sleep 1; done")
        pods = [made.in_phase(name, "Running") for name in ("a", "b")]
        pids = [made.pid(pod) for pod in pods]
        made.stop_agent()
        assert all(is_alive(pid) for pid in pids)
        remove_everything(made.config, grace=1.0, progress=told.append)

        assert not any(is_alive(pid) for pid in pids)
        assert marks(made.config) == []
        # Once more: nothing to do, nothing said.
        before = list(told)
        remove_everything(made.config)
        assert told == before
    assert "stopping default/a" in told
