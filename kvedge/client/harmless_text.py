"""What a guest has written, made harmless for a terminal: nothing in it moves the cursor, sets a title or types.

Called by verbs that show what came out of a guest. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Colours and cursor movements (CSI), and strings such as titles and clipboards (OSC, DCS, APC, PM, SOS), with their
# text. A string that never ends is taken up to the end of its line.
_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=[\n\x1b])|\Z)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-Z\\`-~]"
)
# Characters that are not text: controls, and those that turn the direction of what follows or hide in it.
_ODD: Final = ("Cc", "Cf", "Co", "Cn", "Zl", "Zp")
_KEPT: Final = "\n\t"


def harmless(data: bytes) -> str:
    """Text to show: escape sequences are left out, other control characters are shown as `^G` or `\\u202e`.

    Line ends become plain ones; bytes that are no UTF-8 become replacement characters.
    """
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\n\r", "\n")
    return "".join(map(_escape, _SEQUENCES.sub("", text)))


def _escape(character: str) -> str:
    if character in _KEPT or (character.isascii() and character.isprintable()):
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if unicodedata.category(character) in _ODD:
        return f"\\u{code:04x}"
    return character
