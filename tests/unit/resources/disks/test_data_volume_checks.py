"""What is refused of a DataVolume, in CDI's words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.disks.data_volume_checks import data_volume_problems
from kvedge.resources.types.data_volumes import DataVolumeSpec

SIZE = {"resources": {"requests": {"storage": "1Gi"}}}
PVC = {"accessModes": ["ReadWriteOnce"], **SIZE}
HTTP = {"url": "http://host/disk.img"}


def problems(**spec: Any) -> list[str]:
    return [text for _, text in data_volume_problems(decode(DataVolumeSpec, spec))]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"source": {"blank": {}}, "storage": SIZE}, id="blank"),
        pytest.param({"source": {"http": HTTP}, "pvc": PVC}, id="http"),
        pytest.param({"source": {"http": {**HTTP, "checksum": "md5:" + "a" * 32}}, "pvc": PVC}, id="a checksum"),
        pytest.param({"source": {"registry": {"url": "docker://host/image"}}, "storage": SIZE}, id="registry"),
        pytest.param({"source": {"pvc": {"name": "golden"}}, "storage": {}}, id="a copy needs no size"),
        pytest.param({"source": {"snapshot": {"name": "s"}}, "storage": {}}, id="nor does that of a snapshot"),
        pytest.param({"sourceRef": {"kind": "DataSource", "name": "golden"}, "storage": {}}, id="nor does sourceRef"),
        pytest.param({"storage": {**SIZE, "dataSourceRef": {"kind": "X", "name": "y"}}}, id="filled by others"),
    ],
)
def test_what_can_be_done_is_let_in(spec: dict[str, Any]) -> None:
    assert problems(**spec) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"source": {"blank": {}}}, "Missing Data volume PVC"),
        ({"source": {"blank": {}}, "pvc": PVC, "storage": SIZE},
         "Duplicate storage definition, both target storage and target pvc defined"),
        ({"source": {"blank": {}}, "pvc": {"accessModes": ["ReadWriteOnce"]}}, "PVC size is missing"),
        ({"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "0"}}}},
         "Storage size can't be equal or less than zero"),
        ({"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "1k"}}}},
         "Storage size should be at least 1MiB"),
        ({"source": {"blank": {}}, "pvc": SIZE}, "Required value: at least 1 access mode is required"),
        ({"source": {"blank": {}}, "pvc": {**PVC, "accessModes": ["ReadWriteOnce", "ReadWriteMany"]}},
         "PVC multiple accessModes"),
        ({"source": {"blank": {}}, "pvc": {**PVC, "accessModes": ["x"]}},
         'Unsupported value: "x": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", '
         '"ReadWriteOncePod"'),
        ({"storage": SIZE}, "Data volume should have either Source or SourceRef, or be externally populated"),
        ({"storage": SIZE, "source": {}}, "Missing Data volume source"),
        ({"storage": SIZE, "source": {"blank": {}, "upload": {}}}, "Multiple Data volume sources"),
        ({"storage": {**SIZE, "dataSource": {"kind": "x"}}, "source": {"blank": {}}},
         "External population is incompatible with Source and SourceRef"),
        ({"storage": SIZE, "sourceRef": {"kind": "X", "name": "y"}},
         "Unsupported sourceRef kind X, currently only DataSource is supported"),
        ({"storage": SIZE, "sourceRef": {"kind": "DataSource"}}, "Missing sourceRef name"),
        ({"storage": SIZE, "source": {"blank": {}}, "contentType": "x"}, "ContentType not one of: kubevirt, archive"),
        ({"storage": SIZE, "source": {"blank": {}}, "contentType": "archive"},
         "SourceType cannot be blank and the contentType be archive"),
        ({"storage": SIZE, "source": {"registry": {}}}, "Source registry should have either URL or ImageStream"),
        ({"storage": SIZE, "source": {"registry": {"url": "http://h/i"}}},
         "Illegal registry source URL scheme http://h/i"),
        ({"storage": SIZE, "source": {"registry": {"url": "oci-archive:/i.tar"}}},
         "source.registry.url: oci-archive:/i.tar: a file of CDI's own Pod, which there is none of here; write"
         " oci-archive:https://HOST/FILE, or upload the archive"),
        ({"storage": SIZE, "source": {"registry": {"url": "oci-archive:http://h/i", "platform": {}}}},
         "source.registry.platform: not with oci-archive:, of which the node's architecture is taken"),
        ({"storage": SIZE, "source": {"registry": {"url": "oci-archive:http://h/i", "pullMethod": "node"}}},
         "source.registry.pullMethod: node cannot pull an oci-archive:; remove it"),
        ({"storage": SIZE, "source": {"registry": {"url": "docker://h/i", "pullMethod": "x"}}},
         'ImportMethod x is neither pod, node or ""'),
        ({"storage": SIZE, "source": {"http": {**HTTP, "checksum": "crc:1"}}},
         "Invalid checksum format: unsupported hash algorithm 'crc': supported algorithms are: md5, sha1, sha256, "
         "sha512"),
        ({"storage": SIZE, "source": {"pvc": {}}}, "spec.source.PVC source PVC is not valid"),
        ({"storage": SIZE, "source": {"snapshot": {}}}, "spec.source.snapshot source snapshot is not valid"),
        ({"storage": SIZE, "source": {"snapshot": {"name": "s"}}, "contentType": "archive"},
         "ContentType must be kubevirt when Source is Snapshot"),
        ({"storage": SIZE, "source": {"imageio": {}}},
         "source.imageio: not supported; use http, registry, s3, gcs, upload, pvc or snapshot"),
        ({"storage": SIZE, "source": {"vddk": {}}},
         "source.vddk: not supported; use http, registry, s3, gcs, upload, pvc or snapshot"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_done_is_told(spec: dict[str, Any], text: str) -> None:
    assert text in problems(**spec)
