"""From a request for a subresource to the question whether its caller may do that.

Called by the subresource server. Pure. The subresource is asked for exactly as it is called: a user who may open a
display may not for that reason take screenshots (CVE-2026-6383).
"""

from __future__ import annotations

from msgspec import Struct

from kvedge.api.access_reviews import review_of
from kvedge.api.served_paths import SUBRESOURCE_GROUP
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import RBAC_VERBS
from kvedge.resources.role_users import UserInfo


class Asked(Struct, frozen=True):
    """What somebody wants to do; `resource` with its subresource, such as `virtualmachines/start`."""

    method: str
    version: str
    namespace: str
    resource: str
    name: str

    @property
    def verb(self) -> str:
        """The verb that RBAC knows it by."""
        return RBAC_VERBS.get(self.method, self.method.lower())


def access_review(user: UserInfo, asked: Asked) -> JsonObject:
    """The SubjectAccessReview for it."""
    plural, _, subresource = asked.resource.partition("/")
    attributes = {
        "namespace": asked.namespace,
        "verb": asked.verb,
        "group": SUBRESOURCE_GROUP,
        "version": asked.version,
        "resource": plural,
        "subresource": subresource,
        "name": asked.name,
    }
    return review_of(user, attributes)
