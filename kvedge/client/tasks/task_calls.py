"""The objects that are pieces of work, asked of an API server; those that the user may not list are left out.

Called by the verb, and by the console in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kvedge.client.session import Session
from kvedge.client.tasks.task_rows import TASK_KINDS
from kvedge.kube.errors import Forbidden, NotFound


def each_task(session: Session, place: str | None, refuse: Callable[[str], None] = lambda kind: None) -> Iterator[Any]:
    """The objects of one namespace, or of all, one by one; `refuse` gets the kinds that the user has no right to list.

    Raises:
        KubeError: when the server refuses otherwise, or does not answer.
    """
    for cls in TASK_KINDS:
        try:
            yield from session.client.each(cls, place)
        except Forbidden:
            refuse(cls.KIND.plural)  # type: ignore[attr-defined] # each of them is a kind
        except NotFound:
            # An older server does not know the kind.
            continue
