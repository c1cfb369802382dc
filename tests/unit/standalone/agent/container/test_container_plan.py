from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.names import GUESTFS_IMAGE
from kvedge.resources.types.core import (
    Capabilities,
    ConfigMapVolume,
    Container,
    EmptyDirVolume,
    ImageVolume,
    Pod,
    PodSecurityContext,
    PodVolume,
    ResourceRequirements,
    SeccompProfile,
    SecretVolume,
    SecurityContext,
    Sysctl,
    VolumeMount,
)
from kvedge.standalone.agent.container.cgroups import CgroupLimits
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_plan import (
    ContainerPlanError,
    PodPlace,
    capabilities_of,
    expand,
    oom_score,
    plan_container,
    pod_limits,
    qos_class,
)
from kvedge.standalone.agent.container.container_spec import ContainerSpec, DeviceSpec
from kvedge.standalone.agent.container.container_user import ContainerUser
from kvedge.storage.images.image_manifest import ImageConfig
from tests.support.builders import plain_pod as pod

_PLACE = PodPlace(
    files=PodFiles(Path("/pods/uid-1")),
    volumes={"data": "/pods/uid-1/data", "disk": "/images/1/tree", "s": "/pods/uid-1/s", "m": "/pods/uid-1/m"},
    netns="/run/netns/x",
    cgroups=["/sys/fs/cgroup/memory/x/cgroup.procs"],
    node_memory=4 << 30,
)
_IMAGE = ImageConfig(
    diff_ids=(), env=("PATH=/bin", "LANG=C"), entrypoint=("/entry",), command=("serve",), working_dir="/srv"
)
_USER = ContainerUser(107, 108, (108, 109))


def _plan(
    container: Container,
    made: Pod | None = None,
    env: dict[str, str] | None = None,
    devices: list[DeviceSpec] | None = None,
) -> ContainerSpec:
    return plan_container(made or pod(), container, _PLACE, (_IMAGE, "/tree"), _USER, env or {}, devices or [])


def _container(**changes: Any) -> Container:
    return Container(name="c", image="busybox", **changes)


def test_the_image_says_what_runs_unless_the_pod_does() -> None:
    assert _plan(_container())["argv"] == ["/entry", "serve"]
    assert _plan(_container(args=["other"]))["argv"] == ["/entry", "other"]
    assert _plan(_container(command=["mine"]))["argv"] == ["mine"]
    assert _plan(_container(command=["mine"], args=["a"]))["argv"] == ["mine", "a"]
    assert _plan(_container())["working_dir"] == "/srv"
    assert _plan(_container(working_dir="/w"))["working_dir"] == "/w"


def test_nothing_to_run_is_refused() -> None:
    with pytest.raises(ContainerPlanError, match="no command"):
        plan_container(pod(), _container(), _PLACE, (ImageConfig(diff_ids=()), "/tree"), _USER, {}, [])


def test_the_environment_is_the_image_s_with_the_pod_s_on_top() -> None:
    spec = _plan(_container(), env={"LANG": "de", "A": "b"})

    assert spec["env"] == {"PATH": "/bin", "HOSTNAME": "p", "LANG": "de", "A": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("a$b", "a$b"), ("$(A)$(A)", "11"), ("$$$(A)", "$1")],
)
def test_references_in_commands_are_kubernetes_own(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_user_place_and_files_are_handed_on() -> None:
    spec = _plan(_container())

    assert (spec["uid"], spec["gid"], spec["groups"]) == (107, 108, [108, 109])
    assert (spec["netns"], spec["cgroups"]) == ("/run/netns/x", ["/sys/fs/cgroup/memory/x/cgroup.procs"])
    assert spec["record"] == "/pods/uid-1/containers/c.json"
    assert spec["log"] == "/pods/uid-1/logs/c.log"
    assert spec["root"] == "/tree"


def _targets(spec: ContainerSpec) -> dict[str, tuple[str, bool]]:
    return {mount["target"]: (mount["source"], mount["read_only"]) for mount in spec["mounts"]}


def test_hosts_and_resolv_conf_are_the_pod_s_unless_a_volume_is_there() -> None:
    made = pod(volumes=[PodVolume(name="data", empty_dir=EmptyDirVolume())])
    mounts = [VolumeMount(name="data", mount_path="/etc/hosts")]

    assert _targets(_plan(_container(), made))["/etc/hosts"] == ("/pods/uid-1/etc-hosts", True)
    assert _targets(_plan(_container(volume_mounts=mounts), made))["/etc/hosts"] == ("/pods/uid-1/data", False)
    assert _targets(_plan(_container(), made))["/etc/resolv.conf"] == ("/pods/uid-1/resolv.conf", True)


def test_what_comes_from_an_image_or_an_object_is_read_only_whatever_the_mount_says() -> None:
    made = pod(
        volumes=[
            PodVolume(name="data", empty_dir=EmptyDirVolume()),
            PodVolume(name="disk", image=ImageVolume(reference="x")),
            PodVolume(name="s", secret=SecretVolume(secret_name="x")),
            PodVolume(name="m", config_map=ConfigMapVolume(name="x")),
        ]
    )
    names = ("data", "disk", "s", "m")
    mounts = [VolumeMount(name=name, mount_path=f"/{name}") for name in names]
    found = _targets(_plan(_container(volume_mounts=mounts), made))

    assert [found[f"/{name}"][1] for name in names] == [False, True, True, True]


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (VolumeMount(name="none", mount_path="/x"), "names no volume"),
        (VolumeMount(name="data", mount_path="relative"), "must be absolute"),
        (VolumeMount(name="data", mount_path="/a/../b"), "without .."),
        (VolumeMount(name="data", mount_path="/a", sub_path="../b"), "without .."),
        (VolumeMount(name="data", mount_path="/a", sub_path="/b"), "must be relative"),
    ],
)
def test_a_mount_that_makes_no_sense_is_refused(mount: VolumeMount, words: str) -> None:
    with pytest.raises(ContainerPlanError, match=words):
        _plan(_container(volume_mounts=[mount]))


def test_hotplugged_volumes_are_followed() -> None:
    mounts = [VolumeMount(name="data", mount_path="/x", mount_propagation="HostToContainer")]

    assert _plan(_container(volume_mounts=mounts))["mounts"][0]["follow_host"]


@pytest.mark.parametrize("path", ["/etc/passwd", "/dev/../etc/x", "kvm"])
def test_a_device_is_below_dev_or_refused(path: str) -> None:
    with pytest.raises(ContainerPlanError, match="not below /dev"):
        _plan(_container(), devices=[{"host": "/dev/kvm", "path": path}])


def _capable(add: list[str], drop: list[str]) -> list[str]:
    context = SecurityContext(capabilities=Capabilities(add=add, drop=drop))
    return capabilities_of(_container(security_context=context))


def test_capabilities_are_the_runtime_s_defaults_without_making_devices() -> None:
    default = capabilities_of(_container())

    assert "CHOWN" in default
    assert not {"MKNOD", "SYS_ADMIN", "NET_ADMIN"} & set(default)
    assert _capable([], ["ALL"]) == []
    assert _capable(["NET_BIND_SERVICE"], ["ALL"]) == ["NET_BIND_SERVICE"]
    assert _capable(["CAP_NET_ADMIN"], ["CHOWN"]) == sorted({*default, "NET_ADMIN"} - {"CHOWN"})
    assert "MKNOD" not in _capable(["ALL"], [])


def test_an_unknown_capability_is_refused_by_name() -> None:
    with pytest.raises(ContainerPlanError, match="FLY"):
        _capable(["FLY"], [])


def test_privileges_follow_the_security_contexts() -> None:
    strict = _container(
        security_context=SecurityContext(allow_privilege_escalation=False, read_only_root_filesystem=True)
    )
    context = PodSecurityContext(
        seccomp_profile=SeccompProfile(type="RuntimeDefault"), sysctls=[Sysctl(name="net.ipv4.x", value="1")]
    )
    spec = _plan(strict, pod(security_context=context))

    assert (spec["no_new_privileges"], spec["writable_bytes"], spec["seccomp"]) == (True, 0, True)
    assert spec["sysctls"] == {"net.ipv4.x": "1"}
    plain = _plan(_container())
    assert (plain["no_new_privileges"], plain["seccomp"]) == (False, True)
    assert plain["writable_bytes"] > 0


def test_a_container_s_own_seccomp_profile_wins_over_the_pod_s() -> None:
    own = SecurityContext(seccomp_profile=SeccompProfile(type="Unconfined"))
    context = PodSecurityContext(seccomp_profile=SeccompProfile(type="RuntimeDefault"))

    assert not _plan(_container(security_context=own), pod(security_context=context))["seccomp"]


def _sized(requests: dict[str, str | int] | None = None, limits: dict[str, str | int] | None = None) -> Pod:
    made = pod()
    made.spec.containers[0].resources = ResourceRequirements(requests=requests or {}, limits=limits or {})
    return made


@pytest.mark.parametrize(
    ("requests", "limits", "qos", "score"),
    [
        ({}, {}, "BestEffort", 1000),
        ({"memory": "1Gi"}, {}, "Burstable", 750),
        ({"memory": "4Gi"}, {}, "Burstable", 3),
        ({"cpu": "1"}, {}, "Burstable", 999),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed", -997),
        ({}, {"cpu": "1000m", "memory": "1Gi"}, "Guaranteed", -997),
        ({"cpu": "500m"}, {"cpu": "1", "memory": "1Gi"}, "Burstable", 999),
    ],
)
def test_quality_of_service_and_who_is_killed_first_are_the_kubelet_s(
    requests: dict[str, str | int], limits: dict[str, str | int], qos: str, score: int
) -> None:
    made = _sized(requests, limits)

    assert qos_class(made) == qos
    assert oom_score(made, made.spec.containers[0], 4 << 30) == score


def test_a_pod_is_limited_only_when_all_its_containers_are() -> None:
    assert pod_limits(_sized({"cpu": "100m", "memory": "1Gi"})) == CgroupLimits(0, 100, 0)
    assert pod_limits(_sized({}, {"memory": "1Gi", "cpu": "1500m"})) == CgroupLimits(1 << 30, 0, 1500)
    two = pod("a", "b")
    two.spec.containers[0].resources = ResourceRequirements(limits={"memory": "1Gi"})
    assert pod_limits(two).memory == 0


def test_the_image_of_guestfs_has_the_host_s_programs_and_no_root() -> None:
    container = Container(name="libguestfs", image=GUESTFS_IMAGE, command=["/entrypoint.sh"])
    mounts = {mount["target"]: mount for mount in _plan(container)["mounts"]}
    assert mounts["/usr"]["source"] == "/usr"
    assert mounts["/usr"]["read_only"]
    assert "/usr" not in {mount["target"] for mount in _plan(_container())["mounts"]}
    root = ContainerUser(0, 0, ())
    with pytest.raises(ContainerPlanError, match="leave --root out"):
        plan_container(pod(), container, _PLACE, (_IMAGE, "/tree"), root, {}, [])
