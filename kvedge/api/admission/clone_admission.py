"""The webhook of DataVolumes that copy claims: their users must have the right to copy from that namespace.

Mounted by api_run.py beside the other webhooks. Asks the API server, in a worker thread and with a short deadline,
where a DataSource points and what the user may do; signs a grant that the controller believes. A token that a user has
written is taken away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web

from kvedge.api.access_reviews import REVIEWS, is_allowed, review_of
from kvedge.api.admission.admission_message import AdmissionRequest, forbidden, mutation, refusal
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.rules.storage.clone_rules import (
    clone_asked,
    nameless_words,
    refusal_words,
    source_of,
    sufficient_rights,
    whose_rights,
    with_token,
)
from kvedge.api.admission.webhook_answers import ask_for_answer
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.served_paths import MUTATE_CLONE_PATH
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.clone_grants import CLONE_FIELD, CloneGrant, sign_grant
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.data_volumes import DataSource
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# Less than the API server waits for us.
_ASK_SECONDS: Final = 4.0
_INTERNAL: Final = 500


class CloneAdmission:
    """Judges new DataVolumes that copy something."""

    def __init__(
        self, client: KubeClient, judgement: Judgement, signing_key: Callable[[], bytes], clock: Clock
    ) -> None:
        """`signing_key` says what grants are signed with now."""
        self._client = client.hurry(_ASK_SECONDS)
        self._judgement = judgement
        self._signing_key = signing_key
        self._clock = clock

    def routes(self, paths: SecretPaths) -> list[web.RouteDef]:
        """The webhook, which asks: at a path that callers must know."""
        return [paths.route(MUTATE_CLONE_PATH, ask_for_answer(self._judgement, self._answer))]

    def _answer(self, request: AdmissionRequest) -> JsonObject:
        document = request.object
        if document is None or request.operation != "CREATE":
            return mutation(request.uid, [])
        try:
            foreign = sorted(self._namespaces(request, document) - {request.namespace})
            user = whose_rights(request)
            refused = next((namespace for namespace in foreign if not self._may(user, namespace)), None)
        except KubeError as error:
            return refusal(request.uid, _INTERNAL, f"the API server: {error.message or error}")
        if refused is not None:
            log.info("clone refused", extra={"facts": {"user": user.username, "source": refused}})
            return forbidden(request.uid, CLONE_FIELD, refusal_words(user, refused))
        token = ""
        if foreign:
            name = _name(request, document)
            if not name:
                # It is made up after us, and the grant would be nobody's.
                return forbidden(request.uid, "metadata.generateName", nameless_words(foreign[0]))
            grant = CloneGrant(request.namespace, name, tuple(foreign))
            token = sign_grant(self._signing_key(), grant, self._clock.now())
        return mutation(request.uid, with_token(document, token))

    def _namespaces(self, request: AdmissionRequest, document: JsonObject) -> set[str]:
        """The namespaces whose claims are copied, as far as that can be known now."""
        asked = clone_asked(document, request.namespace)
        if asked.data_source is None:
            return {asked.claims} if asked.claims else set()
        namespace, name = asked.data_source
        # A DataSource may point at another one beside it, which points at a claim.
        for _ in range(2):
            claims, name = source_of(self._data_source(namespace, name), namespace)
            if claims:
                return {claims}
            if not name:
                break
        # It is made later, and will most likely point at a claim of its own namespace.
        return {namespace}

    def _data_source(self, namespace: str, name: str) -> JsonObject:
        try:
            found: JsonObject = self._client.request("GET", DataSource.KIND.path(namespace, name))
        except (NotFound, ValueError):
            # The latter is no name of any.
            return {}
        return found

    def _may(self, user: UserInfo, namespace: str) -> bool:
        rights = sufficient_rights(namespace)
        return any(is_allowed(self._client.request("POST", REVIEWS, review_of(user, right))) for right in rights)


def _name(request: AdmissionRequest, document: JsonObject) -> str:
    return request.name or str((document.get("metadata") or {}).get("name") or "")
