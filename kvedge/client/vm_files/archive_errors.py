"""What is wrong with a file that should be a VM.

Raised by the readers of this folder; the command line shows the text. Touches nothing.
"""

from __future__ import annotations

from kvedge.client.errors import RefusedError


class DamagedFile(RefusedError):
    """The file is not what was written: its content has changed, or somebody made it to do harm."""


class IncompleteFile(RefusedError):
    """The file ends before it should."""


class UnknownFile(RefusedError):
    """The file is of another kind, or of a newer program."""


class NotTrusted(RefusedError):
    """The signature is missing, of another key, or not good."""
