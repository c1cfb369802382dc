"""The header by which a server says something beside its answer, which kubectl and virtctl show.

Called by the embedded API and by the aggregated one. Pure.
"""

from __future__ import annotations

from typing import Final

WARNING: Final = "Warning"


def warning_value(text: str) -> str:
    """The header's value for one warning, which may hold a client's text: a header holds no control characters."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
