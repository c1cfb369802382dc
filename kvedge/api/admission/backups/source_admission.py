"""The webhook of restores and tests of backups of another namespace: their users must have the right to restore there.

Mounted by api_run.py beside the other webhooks. Asks the API server, in a worker thread and with a short deadline, what
the user may do. A store that several namespaces have backups in would else give each of them the disks of all.
"""

from __future__ import annotations

import logging
from typing import Final

from aiohttp import web

from kvedge.api.access_reviews import REVIEWS, is_allowed, review_of
from kvedge.api.admission.admission_message import AdmissionRequest, forbidden, refusal, verdict
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.webhook_answers import ask_for_answer
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.served_paths import VALIDATE_BACKUP_SOURCE_PATH
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.protection.backups import BackupRestore

log = logging.getLogger(__name__)

# Less than the API server waits for us.
_ASK_SECONDS: Final = 4.0
_FIELD: Final = "spec.vmNamespace"
_INTERNAL: Final = 500
_LONGEST_NAME: Final = 253


class BackupSourceAdmission:
    """Judges new BackupRestores and BackupTests by the namespace of the VM that they bring back."""

    def __init__(self, client: KubeClient, judgement: Judgement) -> None:
        self._client = client.hurry(_ASK_SECONDS)
        self._judgement = judgement

    def routes(self, paths: SecretPaths) -> list[web.RouteDef]:
        """The webhook, which asks: at a path that callers must know."""
        return [paths.route(VALIDATE_BACKUP_SOURCE_PATH, ask_for_answer(self._judgement, self._answer))]

    def _answer(self, request: AdmissionRequest) -> JsonObject:
        source = _source_of(request)
        # The controller makes the restore of a test, which was judged by its own user's rights.
        if not source or request.user.is_controller:
            return verdict(request.uid, ())
        try:
            review = review_of(request.user, _right_in(source))
            is_his = is_allowed(self._client.request("POST", REVIEWS, review))
        except KubeError as error:
            return refusal(request.uid, _INTERNAL, f"the API server: {error.message or error}")
        if is_his:
            return verdict(request.uid, ())
        log.info("restore refused", extra={"facts": {"user": request.user.username, "source": source}})
        text = (
            f"{_FIELD}: user {request.user.username} may not read the backups of VMs of namespace {source}: that needs"
            f" the verb create on {BackupRestore.KIND.plural} of {BackupRestore.KIND.group} there, as a RoleBinding of"
            f" kubevirt.io:edit in {source} gives"
        )
        return forbidden(request.uid, _FIELD, text)


def _source_of(request: AdmissionRequest) -> str:
    """The namespace of the VM in the backup, where it is another one than that of the object."""
    if request.operation != "CREATE" or request.sub_resource:
        return ""
    spec = (request.object or {}).get("spec")
    given = spec.get("vmNamespace") if isinstance(spec, dict) else None
    # What is no name, or too long for one, the other webhook of the kind refuses.
    source = given[:_LONGEST_NAME] if isinstance(given, str) else ""
    return "" if source == request.namespace else source


def _right_in(namespace: str) -> dict[str, str]:
    """Who may restore backups there can read its disks already."""
    kind = BackupRestore.KIND
    return {
        "namespace": namespace,
        "verb": "create",
        "group": kind.group,
        "version": kind.version,
        "resource": kind.plural,
    }
