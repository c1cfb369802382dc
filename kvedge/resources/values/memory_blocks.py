"""In which pieces a guest gets memory while it runs, and gives it back."""

from __future__ import annotations

from typing import Final

# What is asked for in other pieces is rounded, or refused.
MEMORY_BLOCK: Final = 2 << 20
