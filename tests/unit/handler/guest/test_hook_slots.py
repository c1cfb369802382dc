# Tests: kvedge/handler/guest/launcher_sync.py
"""Hook sidecars that keep their guests' starts waiting hold up no other guest of the node."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from kvedge.handler.guest.launcher_sync import LauncherSync
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.hook_names import HOOK_SIDECARS
from tests.support.builders import vmi_with

HOOKED = VirtualMachineInstance(metadata=ObjectMeta(name="hooked", annotations={HOOK_SIDECARS: "[{}]"}))
PLUGGED = vmi_with({"domain": {"devices": {"interfaces": [{"name": "lan", "binding": {"name": "site"}}]}}})
PLAIN = VirtualMachineInstance(metadata=ObjectMeta(name="plain"))


def test_two_starts_at_once_ask_hook_sidecars_and_all_others_go_on() -> None:
    sync = LauncherSync(*[MagicMock(plugins={"site": BindingPlugin("", sidecar_image="site:1")})] * 8)
    with sync._hook_slot(HOOKED, starts=True), sync._hook_slot(HOOKED, starts=True):
        with pytest.raises(PodNotReady, match="tried again"), sync._hook_slot(HOOKED, starts=True):
            pass
        with pytest.raises(PodNotReady, match="tried again"), sync._hook_slot(PLUGGED, starts=True):
            pass
        with sync._hook_slot(HOOKED, starts=False), sync._hook_slot(PLAIN, starts=True):
            pass
    with sync._hook_slot(HOOKED, starts=True):
        pass
