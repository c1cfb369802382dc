"""The objects that are pieces of work, asked of an API server; those that the user may not list are left out.

Called by the verb, and by the console in threads.
"""

from __future__ import annotations

from typing import Any

from kvedge.client.session import Session
from kvedge.client.tasks.task_rows import TASK_KINDS
from kvedge.kube.errors import Forbidden, NotFound


def list_tasks(session: Session, place: str | None) -> tuple[list[Any], list[str]]:
    """The objects of one namespace, or of all, and the kinds that the user has no right to list.

    Raises:
        KubeError: when the server refuses otherwise, or does not answer.
    """
    found: list[Any] = []
    refused = []
    for cls in TASK_KINDS:
        try:
            found += session.client.list(cls, place)
        except Forbidden:
            refused.append(cls.KIND.plural)  # type: ignore[attr-defined] # each of them is a kind
        except NotFound:
            # An older server does not know the kind.
            continue
    return found, refused
