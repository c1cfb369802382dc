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
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.place import pod_place
from kvedge.standalone.agent.pod.place.pod_place import PlaceError, Places

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
