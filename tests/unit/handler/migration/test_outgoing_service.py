"""The ways of leaving guests as a service: no way without a certificate, and a renewed one counts from then on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kvedge.handler.migration.outgoing_channels import LeavingGuest
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.handler.pod_errors import PodNotReady
from kvedge.resources.migration_channels import CHANNELS
from kvedge.runtime.tls.certificates import CertificateAuthority, CertificateError, LeafRequest, TlsMaterial
from tests.support.waiting import wait_until

NOW = datetime.now(UTC)
GUEST = LeavingGuest("default", "web", "pod", "node-b", "127.0.0.1:1")


class Signer:
    """Gives a certificate once a test has made one, and says whether it was asked."""

    def __init__(self) -> None:
        self.material: TlsMaterial | None = None
        self.asked = 0

    def keep_fresh(self, _current: TlsMaterial | None) -> TlsMaterial:
        self.asked += 1
        if self.material is None:
            raise CertificateError("nobody signs")
        return self.material

    def make(self) -> None:
        authority = CertificateAuthority.create("kvedge-ca", NOW)
        self.material = authority.issue(LeafRequest("kvedge-migration", hosts=["node-a"]), NOW)


@pytest.fixture
def signer() -> Signer:
    return Signer()


@pytest.fixture
def service(signer: Signer, tmp_path: Path) -> Iterator[OutgoingService]:
    service = OutgoingService(MagicMock(), "node-a", tmp_path)
    service._certificate = signer  # type: ignore[assignment]
    folder(tmp_path).parent.mkdir(parents=True)
    service.start()
    yield service
    service.stop()
    assert service.failure() is None


def folder(kubelet: Path) -> Path:
    return kubelet / "pods/pod/volumes/kubernetes.io~empty-dir/public/migration"


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("handler-leaving")}


def test_a_node_whose_guests_stay_has_neither_threads_nor_a_certificate_for_them(
    service: OutgoingService, signer: Signer
) -> None:
    service.close("m-1")
    assert (service.failure(), signer.asked, threads()) == (None, 0, set())
    with pytest.raises(PodNotReady):
        service.open("m-1", GUEST)
    begun = threads()
    assert begun == {"handler-leaving", "handler-leaving-certificate"}
    with pytest.raises(PodNotReady):
        service.open("m-2", GUEST)
    assert (threads(), service.failure()) == (begun, None)


def test_where_no_event_loop_is_to_be_had_the_next_guest_tries_again(
    service: OutgoingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> asyncio.AbstractEventLoop:
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.events, "new_event_loop", fail)
        with pytest.raises(PodNotReady, match="too many open files"):
            service.open("m-1", GUEST)
    assert (service.failure(), threads()) == (None, set())
    with pytest.raises(PodNotReady, match="no certificate yet"):
        service.open("m-1", GUEST)
    assert len(threads()) == 2


def test_a_handler_that_goes_down_begins_nothing(service: OutgoingService, signer: Signer) -> None:
    service.stop()
    with pytest.raises(PodNotReady):
        service.open("m-1", GUEST)
    assert (signer.asked, threads()) == (0, set())


def test_a_way_opens_once_there_is_a_certificate(service: OutgoingService, signer: Signer, tmp_path: Path) -> None:
    with pytest.raises(PodNotReady, match="no certificate yet"):
        service.open("m-1", GUEST)
    wait_until(lambda: signer.asked, "the first guest asks for one")
    signer.make()
    service.refresh()
    service.open("m-1", GUEST)
    assert {path.name for path in folder(tmp_path).iterdir()} == set(CHANNELS)
    first = service._current_context()
    service.refresh()
    assert service._current_context() is first
    signer.make()
    service.refresh()
    assert service._current_context() is not first


def test_a_pod_that_is_not_there_is_said_to_be_so(service: OutgoingService, signer: Signer) -> None:
    signer.make()
    service.refresh()
    with pytest.raises(PodNotReady, match="no way to the other node"):
        service.open("m-1", GUEST._replace(pod_uid="other"))
