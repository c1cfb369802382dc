"""Edits of objects that others write, too: read, change, write, and again when somebody else was faster.

A controller may write an object between a test's two requests, its status included, and an API server then refuses the
test's version. For tests of all tiers that put a whole object back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from kvedge.kube.errors import Conflict
from kvedge.kube.kube_client import KubeClient

# A controller that is at work writes a few times a second, and not for long.
_TRIES: Final = 30
_PAUSE: Final = 0.1


def edit(client: KubeClient, path: str, change: Callable[[Any], None]) -> Any:
    """What is written once `change` was made to the document at a path; it is called again for each new version.

    Only the write is tried again, and only for an older version; the last refusal is the caller's.
    """
    for left in reversed(range(_TRIES)):
        document = client.request("GET", path)
        change(document)
        try:
            return client.request("PUT", path, document)
        except Conflict:
            if not left:
                raise
        time.sleep(_PAUSE)
    raise AssertionError("not reached")
