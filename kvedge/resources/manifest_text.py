"""Documents as YAML text for files that people read and apply. Touches nothing; imported where such files are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from kvedge.resources.codec import JsonObject


class _Dumper(yaml.SafeDumper):
    """No anchors: the same column in two versions is written twice, as a person would."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def manifest_text(documents: Sequence[JsonObject], heading: str = "") -> str:
    """The documents, separated by `---`, below an optional comment."""
    parts = [yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120) for document in documents]
    comment = f"# {heading}\n" if heading else ""
    return comment + "---\n".join(parts)
