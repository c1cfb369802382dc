# Tests: kvedge/launcher/disks/acpi_tables.py, kvedge/resources/disks/acpi_tables.py
"""ACPI tables in mounted Secrets: found under their keys, and refused when QEMU could not take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.disks.acpi_tables import find_acpi_tables
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.standalone.agent.container.atomic_files import FileContent, write_files
from tests.support.acpi_tables import a_table
from tests.support.builders import vmi_with

AT = "spec.domain.firmware.acpi"


def find(root: Path, acpi: dict[str, Any], **files: bytes) -> dict[str, str]:
    place = root / "var/run/kubevirt-private/secret/licence"
    place.mkdir(parents=True)
    write_files(place, {f"{name}.bin": FileContent(data, 0o644) for name, data in files.items()}, None)
    options = LauncherOptions(namespace="default", name="web", uid="u", root=str(root))
    return find_acpi_tables(vmi_with({"domain": {"firmware": {"acpi": acpi}}}), options)


def test_each_table_is_found_under_its_key(tmp_path: Path) -> None:
    acpi = {"slicNameRef": "licence", "msdmNameRef": "licence"}
    found = find(tmp_path, acpi, slic=a_table(b"SLIC"), msdm=a_table(b"MSDM"))
    assert {kind: Path(path).read_bytes() for kind, path in found.items()} == {
        "slic": a_table(b"SLIC"),
        "msdm": a_table(b"MSDM"),
    }


def test_a_vmi_without_tables_reads_nothing(tmp_path: Path) -> None:
    options = LauncherOptions(namespace="default", name="web", uid="u", root=str(tmp_path))
    assert find_acpi_tables(vmi_with({"domain": {}}), options) == {}


@pytest.mark.parametrize(
    "content",
    [b"", a_table(b"MSDM"), a_table(b"SLIC")[:-1], a_table(b"SLIC", b"x" * 65_500)],
    ids=["empty", "of another type", "cut off", "larger than QEMU takes"],
)
def test_what_is_no_table_is_refused_with_where_to_get_one(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadRequest, match=r"slic\.bin is no ACPI table SLIC") as refused:
        find(tmp_path, {"slicNameRef": "licence"}, slic=content)
    assert refused.value.field == f"{AT}.slicNameRef"
    assert "/sys/firmware/acpi/tables/SLIC" in str(refused.value)


def test_a_secret_without_the_key_says_which_one(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"its Secret has no key msdm\.bin"):
        find(tmp_path, {"msdmNameRef": "licence"}, slic=a_table(b"SLIC"))
