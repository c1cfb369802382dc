"""An upload whose target can no longer become ready: told at once, and nothing is sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.client.errors import RefusedError
from kvedge.client.session import Session
from kvedge.client.uploads.image_upload import ImageUpload, UploadWish
from kvedge.client.uploads.upload_source import FileSource
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject

TARGET = "cdi.kubevirt.io/storage.upload.target"
PHASE = "cdi.kubevirt.io/storage.pod.phase"


class PlayedServer:
    """A claim and a DataVolume, each of which goes through its states and stays in the last one."""

    def __init__(self, claims: list[JsonObject | None], volumes: list[JsonObject | None]) -> None:
        self._states = {"persistentvolumeclaims": claims, "datavolumes": volumes}

    def request(self, method: str, path: str, *more: Any) -> JsonObject:
        assert method == "GET", "nothing is made or marked"
        states = self._states[path.split("/")[-2]]
        found = states.pop(0) if len(states) > 1 else states[0]
        if found is None:
            raise NotFound(404, "NotFound", "no such thing")
        return found


def refusal(server: PlayedServer, *, bare: bool) -> tuple[str, int]:
    """What the upload says, and how often it waited before."""
    waits: list[float] = []
    session = cast("Session", SimpleNamespace(client=server, namespace="ns"))
    wish = UploadWish(name="disk", source=FileSource(Path("/dev/null")), bare=bare, create=False, is_expected=True)
    upload = ImageUpload(session, wish, lambda text: None, lambda sent, size: None, waits.append)
    with pytest.raises(RefusedError) as refused:
        upload.run()
    return str(refused.value), len(waits)


def claim(**annotations: str) -> JsonObject:
    return {"metadata": {"name": "disk", "annotations": {TARGET: "", **annotations}}, "status": {"phase": "Bound"}}


def test_a_claim_that_was_filled_meanwhile_is_no_success() -> None:
    server = PlayedServer([claim(), claim(), claim(**{PHASE: "Succeeded"})], [None])
    assert refusal(server, bare=True) == ("PVC disk is filled already", 1)


def test_a_claim_whose_worker_failed_for_good_is_not_waited_for() -> None:
    why = "the claim holds a disk already"
    failed = claim(**{PHASE: "Failed", "cdi.kubevirt.io/storage.import.fatalError": why})
    assert refusal(PlayedServer([claim(), failed], [None]), bare=True) == (f"PVC disk takes no upload: {why}", 0)


def test_a_data_volume_that_failed_is_not_waited_for() -> None:
    condition = {"type": "Running", "status": "False", "message": "the claim holds a disk already"}
    volume = {"metadata": {"name": "disk"}, "status": {"phase": "Failed", "conditions": [condition]}}
    said, waits = refusal(PlayedServer([None], [volume]), bare=False)
    assert (said.startswith("DataVolume disk takes no upload: the DataVolume is Failed"), waits) == (True, 0)
    assert "holds a disk already" in said
