"""The presets that webhooks know."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from kvedge.api.admission.presets.preset_follower import PresetFollower
from kvedge.kube.errors import Forbidden
from kvedge.resources.codec import decode
from kvedge.resources.types.presets import WrittenPreset
from tests.support.waiting import wait_until


def written(name: str, version: int, namespace: str = "default", **spec: Any) -> WrittenPreset:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "domain": {"cpu": {"cores": 7}}, **spec}
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}
    return decode(WrittenPreset, {"metadata": metadata, "spec": spec})


def names(follower: PresetFollower, namespace: str = "default") -> list[str]:
    return sorted(preset.name for preset in follower.of_namespace(namespace))


def test_presets_are_known_by_namespace_until_they_are_gone() -> None:
    follower = PresetFollower(MagicMock())
    follower._presets.observe(written("a", 1))
    follower._presets.observe(written("b", 2, "other"))
    assert (names(follower), names(follower, "other"), names(follower, "none")) == (["a"], ["b"], [])
    follower._on_change(written("a", 1), None)
    assert names(follower) == []


def test_a_preset_is_taken_apart_once_for_each_change() -> None:
    follower = PresetFollower(MagicMock())
    follower._presets.observe(written("a", 1))
    (first,) = follower.of_namespace("default")
    assert follower.of_namespace("default")[0] is first
    follower._presets.observe(written("a", 2, domain={"cpu": {"cores": 8}}))
    (second,) = follower.of_namespace("default")
    assert second.parts["cpu"].value == {"cores": 8}


def test_a_preset_that_can_select_nothing_is_left_out() -> None:
    follower = PresetFollower(MagicMock())
    follower._presets.observe(written("a", 1))
    follower._presets.observe(written("a", 2, selector={"matchExpressions": [{"key": "app", "operator": "Like"}]}))
    follower._presets.observe(written("b", 3, selector=None))
    assert names(follower) == []


def test_as_long_as_presets_cannot_be_listed_there_is_a_doubt_with_the_servers_words() -> None:
    client = MagicMock()
    client.listing.side_effect = Forbidden(403, "Forbidden", "kvedge:api cannot list presets")
    follower = PresetFollower(client)
    assert "the server has not answered yet" in follower.doubt()
    follower.start(0)
    try:
        wait_until(lambda: "cannot list presets" in follower.doubt(), "the refusal is told")
    finally:
        follower.stop()
    assert "k3s/rbac" in follower.doubt()


def test_presets_that_are_followed_no_more_are_doubted_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    follower = PresetFollower(MagicMock())
    follower._presets._synced.set()
    monkeypatch.setattr(follower._presets, "silent_seconds", lambda: 1000.0)
    assert follower.doubt() == ""
    follower._presets._trouble = "Forbidden"
    assert follower.doubt().startswith("VirtualMachineInstancePresets are no longer followed, and may have changed")
    monkeypatch.setattr(follower._presets, "silent_seconds", lambda: 10.0)
    assert follower.doubt() == ""
