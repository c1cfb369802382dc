"""What the page of images is told of DataVolumes and DataSources."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.data_volumes import DataSource, DataVolume
from kvedge.web.images.image_view import images_view


def volume(name: str = "disk", phase: str = "", progress: str = "", **more: Any) -> DataVolume:
    conditions = [
        {"type": "Ready", "status": "False", "message": "not yet"},
        {"type": "Running", "status": "False", "message": "\u202e" * 5000},
    ]
    document = {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"source": {"upload": {}}, "storage": {"resources": {"requests": {"storage": "1Gi"}}}, **more},
        "status": {"phase": phase, "progress": progress, "conditions": conditions},
    }
    return decode(DataVolume, document)


def row_of(found: DataVolume | DataSource) -> dict[str, Any]:
    of_volume = isinstance(found, DataVolume)
    [row] = images_view([found] if of_volume else [], [] if of_volume else [found])["rows"]  # type: ignore[list-item]
    return dict(row)


@pytest.mark.parametrize(
    ("phase", "progress", "percent"),
    [
        ("ImportInProgress", "42.7%", 42),
        ("ImportInProgress", "N/A", None),
        ("ImportInProgress", "999%", 100),
        ("ImportInProgress", "9" * 10_000 + "%", None),
        ("Succeeded", "", 100),
    ],
    ids=["a part", "unknown", "too much", "hostile", "done"],
)
def test_progress_is_a_whole_percentage_or_unknown(phase: str, progress: str, percent: int | None) -> None:
    assert row_of(volume(phase=phase, progress=progress))["percent"] == percent


def test_a_volume_tells_why_it_is_not_further_in_bounds() -> None:
    row = row_of(volume(phase="Failed"))
    assert (row["state"], row["trouble"], row["from"], row["size"]) == ("Failed", True, "upload", "1Gi")
    assert (len(row["message"]), "\u202e" in row["message"]) == (1024, False)
    assert row_of(volume(phase="Succeeded"))["message"] == ""
    assert row_of(volume())["state"] == "Pending"


def test_a_source_is_told_by_its_kind_and_name() -> None:
    url = {"http": {"url": "https://images.example/debian.qcow2"}}
    assert row_of(volume(source=url))["from"] == "http https://images.example/debian.qcow2"
    reference = {"kind": "DataSource", "name": "debian"}
    assert row_of(volume(source=None, sourceRef=reference))["from"] == "DataSource debian"


@pytest.mark.parametrize(
    ("conditions", "state", "trouble", "message"),
    [
        ([], "Not ready", False, ""),
        ([{"type": "Ready", "status": "True", "message": "fine"}], "Ready", False, ""),
        ([{"type": "Ready", "status": "False", "message": "no claim"}], "Not ready", True, "no claim"),
    ],
    ids=["unknown", "ready", "not ready"],
)
def test_a_data_source_tells_whether_it_leads_somewhere(
    conditions: list[Any], state: str, trouble: bool, message: str
) -> None:
    document = {
        "metadata": {"name": "debian", "namespace": "shop"},
        "spec": {"source": {"pvc": {"name": "debian", "namespace": "images"}}},
        "status": {"conditions": conditions},
    }
    row = row_of(decode(DataSource, document))
    assert (row["state"], row["trouble"], row["message"]) == (state, trouble, message)
    assert row["from"] == "claim images/debian"


def test_rows_are_in_order_and_have_an_end() -> None:
    view = images_view([volume(f"disk-{number:04}") for number in reversed(range(1001))], [])
    assert (len(view["rows"]), view["more"], view["rows"][0]["name"]) == (1000, 1, "disk-0000")
