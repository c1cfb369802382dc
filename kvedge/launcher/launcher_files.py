"""The launcher's small records, whole for each reader.

Used by the records of a run and of a migration. The Pod is gone after a power cut, so nothing is synced to disk.
`runtime/durable_files` does more, and brings modules that a launcher does not load.
"""

from __future__ import annotations

import json
import os
from typing import Any


def replace_json(path: str, document: dict[str, Any]) -> None:
    """Replace a record at once. Raises OSError."""
    staged = f"{path}.new"
    with open(staged, "w") as file:
        json.dump(document, file)
    os.rename(staged, path)
