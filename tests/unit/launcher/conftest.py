"""Options of the launcher's tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the domain converter renders into the golden files; read the difference before committing it",
    )
