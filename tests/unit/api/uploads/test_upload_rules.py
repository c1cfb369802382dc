"""Which uploads are let through, how many, and how slowly."""

from __future__ import annotations

import pytest

from kvedge.api.transfer_slots import TransferRefused
from kvedge.api.uploads.upload_rules import (
    PACE_BYTES,
    PACE_SECONDS,
    UploadPace,
    bearer_token,
    not_ready_yet,
    takes_data,
    upload_slots,
)
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus

PHASE, READY = "cdi.kubevirt.io/storage.pod.phase", "cdi.kubevirt.io/storage.pod.ready"


def claim(annotations: dict[str, str] | None = None, phase: str = "Bound") -> PersistentVolumeClaim:
    metadata = ObjectMeta(name="disk", annotations=annotations or {})
    return PersistentVolumeClaim(metadata=metadata, status=PersistentVolumeClaimStatus(phase=phase))


def owned() -> PersistentVolumeClaim:
    """A claim that a DataVolume has made."""
    found = claim()
    owner = OwnerReference(api_version="cdi.kubevirt.io/v1beta1", kind="DataVolume", name="disk", uid="u")
    found.metadata.owner_references = [owner]
    return found


def test_a_bearer_token_is_found() -> None:
    assert bearer_token("Bearer a-b.c_d.e") == "a-b.c_d.e"


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Bearer", "Bearer a.b", "Bearer <script>.a.b", "a.b.c"])
def test_a_header_without_one_is_a_bad_request(header: str) -> None:
    with pytest.raises(TransferRefused) as refused:
        bearer_token(header)
    assert refused.value.status == 400


def test_a_claim_takes_data_once_its_worker_is_ready() -> None:
    assert not takes_data(claim(), "disk")
    assert not takes_data(claim({READY: "false"}), "disk")
    assert takes_data(claim({READY: "true"}), "disk")


@pytest.mark.parametrize("words", ["doesn't exist", "already finished uploading"])
def test_a_claim_that_never_will_is_refused_in_cdis_words(words: str) -> None:
    found = None if words == "doesn't exist" else claim({PHASE: "Succeeded"})
    with pytest.raises(TransferRefused, match=f"^rejecting Upload Request for PVC disk that {words}$") as refused:
        takes_data(found, "disk")
    assert refused.value.status == 503


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (claim(phase="Pending"), "the PVC is Pending: see `kubectl describe pvc disk`"),
        (claim(), "it has no worker: `image-upload pvc"),
        (owned(), "its worker is not there yet; try again"),
        (claim({PHASE: "Pending"}), "its worker is Pending and not ready yet"),
    ],
    ids=["not bound", "a bare claim", "its worker is not made yet", "starting"],
)
def test_a_claim_that_is_not_ready_in_time_says_what_it_waits_for(found: PersistentVolumeClaim, words: str) -> None:
    refusal = not_ready_yet(found)
    assert refusal.status == 503
    assert words in refusal.message


def test_uploads_are_bounded_in_all_and_by_namespace() -> None:
    slots = upload_slots(most=3, of_one=2)
    with slots.take("a"), slots.take("a"):
        with pytest.raises(TransferRefused, match="uploads into a are under way"), slots.take("a"):
            pass
        with slots.take("b"), pytest.raises(TransferRefused, match="3 uploads are under way"), slots.take("c"):
            pass
    with slots.take("a"), slots.take("a"):
        pass


def test_a_slow_line_may_take_as_long_as_it_needs() -> None:
    pace = UploadPace()
    for _ in range(10_000):
        assert pace.patience > 0
        pace.note_arrival(8.0, 16 << 10)


def test_a_client_that_drips_is_ended() -> None:
    pace = UploadPace()
    for _ in range(int(PACE_SECONDS) - 1):
        pace.note_arrival(1.0, 1)
    with pytest.raises(TransferRefused, match="less than 1024 bytes a second") as refused:
        pace.note_arrival(1.0, 1)
    assert refused.value.status == 408


def test_a_client_is_waited_for_anew_after_each_amount() -> None:
    pace = UploadPace()
    pace.note_arrival(PACE_SECONDS - 1, PACE_BYTES - 1)
    assert pace.patience == 1
    pace.note_arrival(0.5, 1)
    assert pace.patience == PACE_SECONDS
