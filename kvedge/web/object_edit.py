"""Changing a manifest from a page: what may be changed of it, what a change would do, and doing it.

Called by `page_calls` in threads of their own, with the user's own rights, for VMs and for settings. Raises what the
client raises.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kvedge.client.errors import RefusedError
from kvedge.client.session import Session, check_name
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind
from kvedge.web.texts.shown_text import showable
from kvedge.web.texts.text_diff import differing_lines
from kvedge.web.texts.yaml_text import LONGEST, check_object, read_yaml, write_yaml

_SECONDS: Final = 20.0
_LONGEST_LINE: Final = 1024
# Of the server, and not the user's to change; resourceVersion and uid stay, so that no newer object is written over.
_SERVERS: Final = ("creationTimestamp", "generation", "managedFields", "selfLink")
_SEEN: Final = ("resourceVersion", "uid")


class ObjectEdit(Struct, frozen=True):
    """The edits of one kind; each call names its object."""

    kind: Kind

    def read_editable(self, session: Session, namespace: str, name: str) -> JsonObject:
        """The manifest as it may be changed.

        Raises:
            RefusedError: when it is too long for a page.
        """
        text = write_yaml(_editable(self._read(session, namespace, name)))
        if len(text) > LONGEST:
            raise RefusedError(f"the manifest is longer than {LONGEST >> 10} KiB: change it by `kubectl edit`")
        return {"yaml": text}

    def check_change(self, session: Session, namespace: str, name: str, text: str) -> JsonObject:
        """What the server would make of it, in lines that differ from what is there now; nothing is changed."""
        changed = self._put(session, namespace, name, text, is_dry=True)
        # Read afterwards: what is compared must not be older than what the server has changed.
        now = self._read(session, namespace, name)
        lines = differing_lines(*(write_yaml(_editable(each, without=_SEEN)) for each in (now, changed)))
        return {"lines": [[sign, showable(line, _LONGEST_LINE)] for sign, line in lines]}

    def apply_change(self, session: Session, namespace: str, name: str, text: str) -> JsonObject:
        """Change it.

        Raises:
            Conflict: when somebody else has changed it meanwhile.
        """
        self._put(session, namespace, name, text, is_dry=False)
        return {}

    def _put(self, session: Session, namespace: str, name: str, text: str, *, is_dry: bool) -> JsonObject:
        path = self._path(namespace, name)
        document = check_object(read_yaml(text), self.kind.kind, namespace, name)
        query = {"fieldManager": "kvedge", **({"dryRun": "All"} if is_dry else {})}
        made: Any = session.client.hurry(_SECONDS).request("PUT", path, document, query)
        return dict(made)

    def _read(self, session: Session, namespace: str, name: str) -> JsonObject:
        found: Any = session.client.hurry(_SECONDS).request("GET", self._path(namespace, name))
        return dict(found)

    def _path(self, namespace: str, name: str) -> str:
        return self.kind.path(check_name(namespace, "namespace"), check_name(name))


def _editable(document: JsonObject, without: tuple[str, ...] = ()) -> JsonObject:
    metadata = {key: value for key, value in document["metadata"].items() if key not in (*_SERVERS, *without)}
    return {key: metadata if key == "metadata" else value for key, value in document.items() if key != "status"}
