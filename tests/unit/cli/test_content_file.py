"""Content for a file or for standard output."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.cli.content_file import write_content
from kvedge.cli.exits import Refused


def test_a_file_is_written_and_a_dash_is_standard_output(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert write_content(str(tmp_path / "web.pcap"), b"\0frames")
    assert (tmp_path / "web.pcap").read_bytes() == b"\0frames"
    assert not write_content("-", b"\0frames")
    assert capfdbinary.readouterr().out == b"\0frames"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be written: No such file or directory"):
        write_content(str(tmp_path / "missing" / "web.pcap"), b"")
