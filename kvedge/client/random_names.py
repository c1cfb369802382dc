"""Names for objects that were given none.

Called by `create vm` and `launch`. Draws random letters.
"""

from __future__ import annotations

import secrets
from typing import Final

# Kubernetes' own: no vowels, so no words, and nothing that looks like something else.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def random_name(prefix: str) -> str:
    """`prefix`, a hyphen and five letters."""
    return f"{prefix}-{random_letters()}"


def random_letters() -> str:
    """Five letters."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))
