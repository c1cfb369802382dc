"""What of a Pod's annotations keeps its network from being made, or from following them."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.resources.codec import decode
from kvedge.resources.names import POD_MAC
from kvedge.resources.types.core import Pod
from kvedge.resources.values.bandwidth import EGRESS
from kvedge.standalone.agent.container.cgroups import CgroupLimits
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.place import pod_place
from kvedge.standalone.agent.pod.place.pod_place import PlaceError, Places
from tests.support.values import replace

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
ADDRESSES = ("10.99.0.7",)


def pod(annotations: dict[str, str]) -> Pod:
    return decode(Pod, {"metadata": {"name": "p", "namespace": "red", "uid": "u7", "annotations": annotations}})


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr(pod_place, "set_up_volumes", lambda *_: {})
    return Places(CONFIG, MagicMock(), MagicMock(), 0, MagicMock())


@pytest.mark.parametrize("written", [{POD_MAC: "no MAC"}, {EGRESS: "fast"}])
def test_an_annotation_that_cannot_be_read_is_told_of_the_pod(
    places: Places, tmp_path: Path, written: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvedge.network.pods.pod_network.create_netns", lambda name: tmp_path)
    with pytest.raises(PlaceError) as caught:
        places.make(pod(written), PodFiles(tmp_path), ADDRESSES, {})
    assert caught.value.reason == "FailedCreatePodSandBox"


def test_a_mac_that_was_made_unreadable_while_the_pod_runs_keeps_nothing_but_its_networks(
    places: Places, tmp_path: Path
) -> None:
    with pytest.raises(PlaceError):
        places.follow_networks(pod({POD_MAC: "no MAC"}), PodFiles(tmp_path), ADDRESSES)


def guest(**selector: str) -> Pod:
    amounts = {"cpu": "2", "memory": "64Mi"}
    container = {"name": "compute", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"containers": [container], "nodeSelector": selector, "hostNetwork": True}
    return decode(Pod, {"metadata": {"name": "p", "namespace": "red", "uid": "u7"}, "spec": spec})


ALONE = {"kubevirt.io/cpumanager": "true"}


def test_a_guest_with_cpus_for_itself_has_them_without_a_quota(places: Places) -> None:
    cpus = MagicMock(cpuset_of={"u7": frozenset({2, 3})}.__getitem__)
    found = replace(places, cpus=cpus)
    assert found.limits_of(guest(**ALONE), "u7") == CgroupLimits(64 << 20, 2000, 0, frozenset({2, 3}))
    assert found.limits_of(guest(), "u7") == CgroupLimits(64 << 20, 2000, 2000, frozenset({2, 3}))


@pytest.mark.parametrize("held", [frozenset({2, 3}), frozenset({2}), frozenset[int]()])
def test_a_guest_is_not_started_where_others_cannot_be_kept_off_its_cpus(
    places: Places, tmp_path: Path, held: frozenset[int]
) -> None:
    cgroups = MagicMock(cpus_of=lambda uid: held, create=lambda uid, limits: ["procs"])
    found = replace(places, cpus=MagicMock(cpuset_of=lambda uid: frozenset({2, 3})), cgroups=cgroups)
    if len(held) == 2:
        assert found.make(guest(**ALONE), PodFiles(tmp_path), ADDRESSES, {}).cgroups == ["procs"]
        return
    with pytest.raises(PlaceError, match="cannot keep others off the CPUs of this guest"):
        found.make(guest(**ALONE), PodFiles(tmp_path), ADDRESSES, {})
