"""Directories that others mount into launchers: which volume of the Pod a path is in."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.shares.container_paths import PATH_DIRECTORY, PATH_VARIABLE, PathMount, find_path_mounts
from kvedge.resources.types.core import Pod

TOKEN = "/var/run/secrets/cloud/token"


def pod(path: str = TOKEN, *mounts: dict[str, Any], own: tuple[dict[str, Any], ...] = (), **volume: Any) -> Pod:
    served = {"name": "virtiofs-a", "env": [{"name": PATH_VARIABLE, "value": path}], "volumeMounts": list(own)}
    compute = {"name": "compute", "volumeMounts": list(mounts)}
    volumes = [{"name": "cloud", **(volume or {"projected": {"sources": []}})}, {"name": "other", "emptyDir": {}}]
    return decode(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [compute, served], "volumes": volumes}})


def mounted(path: str, **more: str) -> dict[str, Any]:
    return {"name": "cloud", "mountPath": path, **more}


@pytest.mark.parametrize(
    ("mounts", "sub_path"),
    [
        pytest.param([mounted(TOKEN)], "", id="the mount itself"),
        pytest.param([mounted(f"{TOKEN}/")], "", id="with a slash"),
        pytest.param([mounted("/var/run/secrets")], "cloud/token", id="below it"),
        pytest.param([mounted("/var/run/secrets/cloud", subPath="a/b/")], "a/b/token", id="below a part"),
        pytest.param(
            [{"name": "other", "mountPath": "/var/run"}, mounted("/var/run/secrets/cloud")], "token", id="two"
        ),
        pytest.param([mounted("/var/run/secrets/clo"), mounted("/var")], "run/secrets/cloud/token", id="a like name"),
    ],
)
def test_a_path_is_in_the_volume_that_is_mounted_nearest_above_it(mounts: list[Any], sub_path: str) -> None:
    assert find_path_mounts(pod(TOKEN, *mounts)) == ([PathMount(1, "cloud", sub_path)], [])


@pytest.mark.parametrize("kind", ["configMap", "secret", "projected", "downwardAPI", "emptyDir"])
def test_these_kinds_may_be_shared(kind: str) -> None:
    source = {"configMap": {"name": "a"}, "secret": {"secretName": "a"}}.get(kind, {})
    assert find_path_mounts(pod(TOKEN, mounted(TOKEN), **{kind: source}))[0] == [PathMount(1, "cloud", "")]


@pytest.mark.parametrize(
    ("mounts", "volume", "why"),
    [
        pytest.param([], {}, f"no volume is mounted at {TOKEN} in the container compute", id="nothing"),
        pytest.param([mounted("/var/run/secrets/cloud/tok")], {}, "no volume is mounted", id="another"),
        pytest.param(
            [mounted(TOKEN)], {"hostPath": {"path": "/etc"}}, "is none of configMap, secret, projected", id="the host's"
        ),
        pytest.param([mounted(TOKEN)], {"persistentVolumeClaim": {"claimName": "a"}}, "is none of", id="a claim"),
        pytest.param([mounted(TOKEN)], {"csi": {"driver": "a"}}, "is none of", id="a kind that is not known"),
        pytest.param([mounted(TOKEN, subPathExpr="$(POD_NAME)")], {}, "by subPathExpr", id="a part that is not known"),
    ],
)
def test_what_cannot_be_shared_is_told(mounts: list[Any], volume: dict[str, Any], why: str) -> None:
    found, troubles = find_path_mounts(pod(TOKEN, *mounts, **volume))
    assert found == []
    assert [trouble.container for trouble in troubles] == ["virtiofs-a"]
    assert why in troubles[0].why


def test_a_container_that_has_its_directory_lacks_nothing() -> None:
    assert find_path_mounts(pod(TOKEN, own=({"name": "cloud", "mountPath": PATH_DIRECTORY},))) == ([], [])
