"""What guests of a node run on under a configuration, and how a change gets there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kvedge.handler.node import node_platform
from kvedge.handler.node.capability_seed import ProbeError
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_manifest import NodeCapabilities
from kvedge.handler.node.node_platform import NodePlatform, OwnAccelerator, choose
from kvedge.resources.configuration.configuration import DEFAULTS, Configuration, Smbios
from tests.support.values import replace
from tests.support.waiting import wait_until

KVM = Accelerator(False, "KVM: a test machine booted its firmware")
TCG = Accelerator(True, "software emulation, as /dev/kvm does not exist")
EMULATE = replace(DEFAULTS, use_emulation=True)


@pytest.mark.parametrize(
    ("own", "is_set", "configuration", "emulates"),
    [
        (KVM, False, DEFAULTS, False),
        (KVM, False, EMULATE, True),
        (KVM, True, EMULATE, False),
        (TCG, False, DEFAULTS, True),
        (TCG, True, DEFAULTS, True),
    ],
    ids=["KVM works", "the object asks", "the operator says kvm", "KVM does not work", "the operator says tcg"],
)
def test_the_operator_wins_over_the_object_and_the_object_over_what_was_found(
    own: Accelerator, is_set: bool, configuration: Configuration, emulates: bool
) -> None:
    chosen = choose(OwnAccelerator(own, is_set), configuration)
    assert chosen.emulation is emulates
    assert ("useEmulation" in chosen.detail) is (emulates and own is KVM)


class ProbedHost:
    """A host whose probe is announced: what it answers for each accelerator, and how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.broken = False

    def probe(self, directory: Path, *, emulation: bool) -> NodeCapabilities:
        self.asked.append(emulation)
        if self.broken:
            raise ProbeError("QEMU is missing")
        return NodeCapabilities(
            host_cpu_model="emulated" if emulation else "real",
            cpu_models=["486", "Nehalem"],
            known_models=["486", "EPYC", "Nehalem"],
        )


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ProbedHost:
    found = ProbedHost()
    monkeypatch.setattr(node_platform, "ensure_seed", found.probe)
    return found


class Configured:
    """The configuration in force, to be exchanged."""

    def __init__(self) -> None:
        self.now = DEFAULTS

    def __call__(self) -> Configuration:
        return self.now


def test_a_change_is_probed_for_first_and_told_then(host: ProbedHost, tmp_path: Path) -> None:
    configuration, told = Configured(), threading.Event()
    platform = NodePlatform(OwnAccelerator(KVM), tmp_path, configuration)
    platform.prepare()
    platform.on_change(told.set)
    platform.start()
    try:
        configuration.now = EMULATE
        platform.note_configuration_change()
        assert told.wait(10)
        assert (platform.options().emulation, platform.capabilities.host_cpu_model) == (True, "emulated")
        told.clear()
        configuration.now = replace(EMULATE, cpu_model="host-model")
        platform.note_configuration_change()
        configuration.now = DEFAULTS
        platform.note_configuration_change()
        assert told.wait(10)
        assert (platform.options().emulation, platform.capabilities.host_cpu_model) == (False, "real")
        assert host.asked == [False, True, False]
    finally:
        platform.stop()


def test_models_that_are_obsolete_are_not_offered(host: ProbedHost, tmp_path: Path) -> None:
    configuration, told = Configured(), threading.Event()
    platform = NodePlatform(OwnAccelerator(TCG), tmp_path, configuration)
    platform.prepare()
    platform.on_change(told.set)
    platform.start()
    try:
        assert platform.capabilities.cpu_models == ["486", "Nehalem"]
        configuration.now = replace(DEFAULTS, obsolete_cpu_models=frozenset({"486"}))
        platform.note_configuration_change()
        assert told.wait(10)
        found = platform.capabilities
        assert (found.cpu_models, found.known_models, found.is_obsolete) == (["Nehalem"], ["EPYC", "Nehalem"], False)
        told.clear()
        configuration.now = replace(DEFAULTS, obsolete_cpu_models=frozenset({"emulated"}))
        platform.note_configuration_change()
        assert told.wait(10)
        assert platform.capabilities.is_obsolete
        assert host.asked == [True], "nothing has to be probed for that"
    finally:
        platform.stop()


def test_an_accelerator_that_cannot_be_probed_leaves_the_one_before(host: ProbedHost, tmp_path: Path) -> None:
    configuration = Configured()
    platform = NodePlatform(OwnAccelerator(KVM), tmp_path, configuration)
    platform.prepare()
    platform.start()
    try:
        host.broken = True
        configuration.now = EMULATE
        platform.note_configuration_change()
        wait_until(lambda: host.asked == [False, True], "it was probed")
        assert platform.accelerator == KVM
        assert platform.options().emulation is False
    finally:
        platform.stop()


def test_launchers_are_told_what_the_object_says_of_smbios_and_firmware(host: ProbedHost, tmp_path: Path) -> None:
    configuration = Configured()
    configuration.now = replace(
        DEFAULTS, smbios=Smbios("Shelf", "Edge", "Box"), ovmf_paths={"amd64": "/firmware", "arm64": "/firmware"}
    )
    platform = NodePlatform(OwnAccelerator(TCG), tmp_path, configuration)
    platform.prepare()
    options = platform.options()
    assert (options.smbios_family, options.smbios_manufacturer, options.smbios_product) == ("Shelf", "Edge", "Box")
    assert options.ovmf_path == "/firmware"
