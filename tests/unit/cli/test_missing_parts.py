# Tests: kvedge/cli/failures.py
"""A host without a library that the built program is linked with, and a program without a part of its own."""

from __future__ import annotations

import sys

import pytest

from kvedge.cli.exits import Exit
from kvedge.cli.failures import explain


def test_a_library_that_the_host_lacks_is_named() -> None:
    refused = explain(ImportError("libssl.so.3: cannot open shared object file: No such file or directory"))
    assert refused.text == "this host lacks the library libssl.so.3: install the package that has it"
    assert refused.code == Exit.HOST


def test_a_damaged_program_is_told_how_to_repair_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    refused = explain(ModuleNotFoundError("No module named 'aiohttp'"))
    assert refused.text.endswith("(No module named 'aiohttp'); run `kvedge --verify`, which repairs it")
    assert refused.code == Exit.HOST


def test_a_checkout_without_its_libraries_says_so() -> None:
    assert explain(ModuleNotFoundError("No module named 'aiohttp'")).text.endswith("install kvedge's requirements")
