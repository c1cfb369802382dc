"""The checksum of what a server sends, over the bytes as they are sent.

Called by the sources. Computes only.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from kvedge.storage.imports.import_errors import ChecksumWrong, ImportFailure

_DIGITS: Final = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}


class Checksum:
    """One `algorithm:hex`, compared at the end."""

    def __init__(self, text: str) -> None:
        """
        Raises:
            ImportFailure: when the text is no checksum.
        """
        algorithm, _, digits = text.partition(":")
        algorithm = algorithm.lower()
        if _DIGITS.get(algorithm) != len(digits) or not re.fullmatch("[0-9a-fA-F]+", digits):
            raise ImportFailure(
                f"Invalid checksum format: {text[:150]!r}; write algorithm:hex with one of {', '.join(_DIGITS)}",
                reason="ChecksumError",
                fatal=True,
            )
        self._algorithm = algorithm
        self._wanted = digits.lower()
        self._found = hashlib.new(algorithm, usedforsecurity=False)

    def update(self, data: bytes) -> None:
        """The next bytes."""
        self._found.update(data)

    def check(self) -> None:
        """All bytes have come.

        Raises:
            ChecksumWrong: when they are others.
        """
        found = self._found.hexdigest()
        if found != self._wanted:
            raise ChecksumWrong(self._algorithm, self._wanted, found)
