"""What a user may have meant when there is no object of a name: names of the same kind that are spelt alike.

Called by get, describe and delete when the server answered with 404. Asks it once more; that may fail silently.
"""

from __future__ import annotations

from typing import Final

from kvedge.client.errors import ClientError, NotFoundError
from kvedge.client.session import Session
from kvedge.kube.errors import KubeError, NotFound
from kvedge.resources.kinds import Kind
from kvedge.runtime.nearest_names import or_nearest

_SECONDS: Final = 5.0
_MOST: Final = "500"


def explain_not_found(session: Session, kind: Kind, name: str, error: NotFound) -> ClientError:
    """The server's words, with what helps."""
    path = kind.path(session.namespace if kind.namespaced else "")
    try:
        answer = session.client.hurry(_SECONDS).request("GET", path, query={"limit": _MOST})
        names = sorted(str(item["metadata"]["name"]) for item in answer["items"])
    except (KubeError, KeyError, TypeError, AttributeError):
        # The first answer is what counts; a second one that is odd adds nothing.
        return NotFoundError(error.message)
    hint = or_nearest(name, names)
    return NotFoundError(f"{error.message}.{hint}" if hint else error.message)
