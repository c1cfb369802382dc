"""The settings that count: those of the oldest KubeVirt object. Read with the user's own rights.

Called by `page_calls` in threads of their own. Raises what the client raises.
"""

from __future__ import annotations

from typing import Final

from kvedge.client.errors import NotFoundError
from kvedge.client.session import Session
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.web.own_rights import may
from kvedge.web.site.settings_view import settings_view

_SECONDS: Final = 20.0
_KIND: Final = KubeVirt.KIND


def read_settings(session: Session) -> JsonObject:
    """The settings in words, and whether the user may change them.

    Raises:
        NotFoundError: when there is no KubeVirt object.
    """
    found = session.client.hurry(_SECONDS).list(KubeVirt)
    if not found:
        raise NotFoundError("there is no KubeVirt object: all settings are as by default")
    oldest = min(found, key=lambda each: each.precedence)
    may_edit = may(session, oldest.metadata.namespace, ("update", _KIND.group, _KIND.plural, ""))
    return {**settings_view(oldest), "mayEdit": may_edit}
