# Tests: kvedge/runtime/linux/meminfo.py
"""What the kernel says of the host's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.runtime.linux.meminfo import parse_meminfo, read_meminfo

TEXT = "MemTotal:       16384 kB\nMemFree:  512 kB\nHugePages_Total:       0\nOdd\nWorse: many kB\n"
FIGURES = {"MemTotal": 16384, "MemFree": 512, "HugePages_Total": 0}


def test_memory_is_in_kibibytes() -> None:
    assert parse_meminfo(TEXT) == FIGURES


def test_it_is_read_where_the_kernel_has_it(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(TEXT)
    assert read_meminfo(tmp_path) == FIGURES
    assert {"MemTotal", "MemAvailable"} <= set(read_meminfo())
    with pytest.raises(FileNotFoundError):
        read_meminfo(tmp_path / "nowhere")
