"""Text of guests, users and servers as a page may show it: short, and without characters that hide or turn others.

Called by whatever makes documents for pages. Pure. Pages put it into text nodes: markup in it stays text.
"""

from __future__ import annotations

from typing import Final

from kvedge.client.harmless_text import harmless

LONGEST: Final = 256


def showable(text: str, longest: int = LONGEST) -> str:
    """At most so many characters of it, with an ellipsis where it was cut."""
    # Cut before the work is done as well: escapes make it longer, never shorter than what they stand for.
    safe = harmless(text[: longest + 1].encode(errors="replace"))
    return safe if len(safe) <= longest else safe[: longest - 1] + "…"
