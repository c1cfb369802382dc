"""The containers that share directories with a guest."""

from __future__ import annotations

from typing import Any

from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.configuration.support_containers import NOTHING_SAID, VIRTIOFS, Support
from kvedge.resources.names import SHARES_DIRECTORY
from kvedge.resources.types.core import ResourceRequirements
from tests.support.builders import CONFIG, a_claim, small_vmi, vmi_of
from tests.support.values import replace

VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
    {"name": "settings", "configMap": {"name": "settings"}},
]


def spec_of(volumes: list[JsonObject] = VOLUMES, support: Support = NOTHING_SAID, **changes: Any) -> JsonObject:
    document = small_vmi(**changes)
    document["metadata"].update(name="sharing", namespace="default", uid="u-1")
    spec = document["spec"]
    spec["volumes"] = [*spec.get("volumes", []), *volumes]
    spec["domain"]["devices"]["filesystems"] = [{"name": volume["name"], "virtiofs": {}} for volume in volumes]
    config = replace(CONFIG, program=["/opt/kvedge/kvedge"], program_directories=["/opt/kvedge"], support=support)
    pod: JsonObject = encode(launcher_pod(vmi_of(document), config, {"claim": a_claim("claim")}))
    return dict(pod["spec"])


def test_each_directory_has_a_container_that_sees_it_and_no_other() -> None:
    _, data, settings = spec_of()["containers"]
    assert [data["name"], settings["name"]] == ["virtiofs-data", "virtiofs-settings"]
    assert data["command"] == [
        "/opt/kvedge/kvedge",
        "launcher-share",
        "data",
        "/var/run/kubevirt-private/vmi-disks/data",
        SHARES_DIRECTORY,
    ]
    for container, directory in ((data, "vmi-disks/data"), (settings, "config-map/settings")):
        mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
        own = f"/var/run/kubevirt-private/{directory}"
        assert mounts == {"/usr": True, "/opt/kvedge": True, SHARES_DIRECTORY: False, own: True}


def test_such_a_container_has_no_right_beside_what_its_daemon_confines_itself_with() -> None:
    for container in spec_of()["containers"][1:]:
        context = container["securityContext"]
        assert context["runAsUser"] == context["runAsGroup"] == 107
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        assert context["seccompProfile"] == {"type": "Unconfined"}


def test_a_container_is_limited_where_the_launchers_is() -> None:
    """The pages of the guest that it is the first to touch count as its own."""
    for limits, expected in (({}, {}), ({"memory": "1Gi"}, {"memory": "80M"}), ({"cpu": "2"}, {"cpu": "100m"})):
        for container in spec_of(domain__resources={"limits": limits})["containers"][1:]:
            assert container["resources"].get("limits", {}) == expected
            assert container["resources"]["requests"] == {"cpu": "10m", "memory": "16M"}


def test_the_kubevirt_object_says_what_a_container_may_use_also_where_the_launcher_is_not_limited() -> None:
    told = {VIRTIOFS: ResourceRequirements(requests={"memory": "20M"}, limits={"memory": "333Mi"})}
    compute, *others = spec_of(support=told)["containers"]
    for container in others:
        assert container["resources"] == {
            "requests": {"cpu": "10m", "memory": "20M"},
            "limits": {"memory": "333Mi"},
        }
    assert "memory" not in compute["resources"].get("limits", {})


def test_the_launcher_and_other_pods_keep_the_runtimes_filter() -> None:
    spec = spec_of()
    assert "seccompProfile" not in spec["containers"][0]["securityContext"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_in_a_guaranteed_pod_each_container_asks_for_as_much_as_it_may_have() -> None:
    cpu = {"cores": 1, "dedicatedCpuPlacement": True}
    for container in spec_of(domain__cpu=cpu)["containers"][1:]:
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_names_of_long_volumes_stay_names_of_containers() -> None:
    volumes = [{"name": f"{'a' * 62}{end}", "configMap": {"name": "a"}} for end in "xy"]
    names = [container["name"] for container in spec_of(volumes)["containers"][1:]]
    assert len(set(names)) == 2
    assert all(len(name) <= 63 for name in names)


def test_a_guest_without_directories_has_no_place_for_them() -> None:
    spec = spec_of([])
    assert len(spec["containers"]) == 1
    assert SHARES_DIRECTORY not in {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
