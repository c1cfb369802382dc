"""The objects that an import has made, each by itself: what it has not made it neither fills nor deletes.

Held by an import. Talks to the API server.
"""

from __future__ import annotations

from kvedge.client.errors import RefusedError
from kvedge.client.session import Session
from kvedge.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unavailable
from kvedge.resources.codec import JsonObject


class MadeObjects:
    """In the order in which they were made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # The path of each, and its UID.
        self._made: list[tuple[str, str]] = []
        # Those of which the answer got lost.
        self._unknown: list[str] = []

    def make(self, path: str, document: JsonObject) -> JsonObject:
        """Make an object of the session's namespace; returns it as the server has it.

        Raises:
            RefusedError: somebody else has made one of its name meanwhile.
            KubeError: when the server refuses.
        """
        metadata = {**document["metadata"], "namespace": self._session.namespace}
        place = f"{path}/{metadata['name']}"
        try:
            made: JsonObject = self._session.client.request("POST", path, {**document, "metadata": metadata})
        except AlreadyExists as error:
            raise RefusedError(
                f"{document['kind']} {metadata['name']} was made by somebody else meanwhile: it is left as it is"
            ) from error
        except KubeError as error:
            if isinstance(error, Unavailable):
                self._unknown.append(place)
            raise
        except BaseException:
            # Broken off before the answer was here, by Ctrl-C or a connection.
            self._unknown.append(place)
            raise
        self._made.append((place, str(made["metadata"]["uid"])))
        return made

    def take_back(self) -> list[str]:
        """Delete all of them; returns those that are left, or may be, as kind and name."""
        left = list(self._unknown)
        for place, uid in reversed(self._made):
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
            try:
                self._session.client.request("DELETE", place, options)
            except (NotFound, Conflict):
                # Another one has its name by now.
                continue
            except (KubeError, OSError):
                left.append(place)
        return ["/".join(place.rsplit("/", 2)[1:]) for place in left]
