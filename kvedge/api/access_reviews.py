"""The question to the API server whether somebody may do something.

Used by the subresources and by the admission of clones. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import UserInfo

REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def review_of(user: UserInfo, attributes: Mapping[str, str]) -> JsonObject:
    """The SubjectAccessReview for what these attributes of a resource say."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.username,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": dict(attributes),
        },
    }


def is_allowed(review: JsonObject) -> bool:
    """Whether the answered review says yes; anything else is a no."""
    status = review.get("status") or {}
    return status.get("allowed") is True and status.get("denied") is not True
