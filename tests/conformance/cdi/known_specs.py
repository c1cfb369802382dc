"""CDI's specs that cannot apply to kvedge, each with its reason. Read by the run, which leaves them out. Pure."""

from __future__ import annotations

from typing import Final

from tests.conformance.known_specs import KnownSpecs

CANNOT_APPLY: Final[tuple[KnownSpecs, ...]] = ()
