"""The parts of the handler: the order in which they start, and what ends with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kvedge.handler import handler_service
from kvedge.handler.handler_service import HandlerConfig, HandlerRole
from kvedge.handler.node.capability_seed import ProbeError
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.runtime.role import Part, order_of_need
from kvedge.runtime.services import ServiceError


@pytest.fixture
def role(tmp_path: Path) -> HandlerRole:
    return HandlerRole(
        HandlerConfig(
            kubeconfig=tmp_path / "kubeconfig",
            node="n1",
            kubelet=tmp_path / "kubelet",
            state=tmp_path / "state",
            capabilities=tmp_path / "capabilities",
            accelerator=Accelerator(True, "none"),
        )
    )


def test_guests_are_looked_after_once_the_node_is_probed_and_its_vmis_are_listed(role: HandlerRole) -> None:
    parts = role._make_parts(MagicMock())
    names = [part.name for part in order_of_need(parts)]
    assert names == [
        "client",
        "launcher connections",
        "configuration",
        "accelerator",
        "events",
        "troubles",
        "VMIs",
        "coming VMIs",
        "leaving guests",
        "sync loop",
        "reservations",
        "device plugins",
        "usage",
        "relay",
        "node",
        "platform",
    ]
    connections = parts[1]
    connections.start()
    connections.stop()


def test_a_host_whose_qemu_cannot_be_probed_ends_what_has_started(
    role: HandlerRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = MagicMock()
    client.listing.side_effect = client.list.side_effect = RuntimeError("not asked")
    monkeypatch.setattr(handler_service.KubeClient, "from_kubeconfig", lambda *_: client)
    monkeypatch.setattr(handler_service, "load_missing_modules", list)
    monkeypatch.setattr(handler_service, "_CONFIGURATION_SECONDS", 0.0)

    def refuse(*_: object, **__: object) -> None:
        raise ProbeError("libvirt is not there")

    monkeypatch.setattr("kvedge.handler.node.node_platform.ensure_seed", refuse)
    with pytest.raises(ServiceError, match="handler: libvirt is not there"):
        role.start()
    assert client.close.called
    assert role.failure() is None


def bin_is_a_file(seed: Path) -> None:
    seed.mkdir()
    (seed / "bin").touch()


def virsh_is_a_directory(seed: Path) -> None:
    (seed / "bin/virsh").mkdir(parents=True)


def seed_is_a_file(seed: Path) -> None:
    seed.touch()


@pytest.mark.parametrize("spoil", [bin_is_a_file, virsh_is_a_directory, seed_is_a_file])
def test_a_virsh_that_cannot_be_written_is_told_and_keeps_nothing_from_starting(
    role: HandlerRole, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], None]
) -> None:
    started: list[str] = []
    monkeypatch.setattr(handler_service, "load_missing_modules", list)
    monkeypatch.setattr(handler_service.KubeClient, "from_kubeconfig", MagicMock())
    monkeypatch.setattr(role, "_make_parts", lambda _client: [Part("one", lambda: started.append("one"))])
    seed = role._config.capabilities
    spoil(seed)
    role.start()
    assert started == ["one"]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    facts = vars(record)["facts"]
    assert facts["directory"] == str(seed / "bin")
    assert str(seed) in facts["why"]


def test_one_that_was_never_started_can_be_stopped(role: HandlerRole) -> None:
    role.stop()
    assert role.failure() is None
