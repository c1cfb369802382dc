"""sev/setupsession of VMIs: with which keys a guest starts whose memory AMD SEV encrypts.

Called by the subresource server in a worker thread, as the API client blocks. Codes and words are KubeVirt's.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.admission.rules.launch_security_rules import is_blob
from kvedge.api.subresources.call_options import SevSessionOptions, parse_options
from kvedge.api.subresources.guest_rules import check_session
from kvedge.api.subresources.status_message import VMI, bad_request, internal, not_found_refusal
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.guest_verbs import GuestVerb
from kvedge.resources.types.vmi import VirtualMachineInstance

_SEV: Final = "/spec/domain/launchSecurity/sev"
_JSON_PATCH: Final = "application/json-patch+json"


class AttestationCalls:
    """The call for the VMIs of one API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> None:
        """Write the session into the VMI, whose guest has waited for it. Raises Refusal."""
        session = read_session(body)
        path = VirtualMachineInstance.KIND.path(namespace, name)
        try:
            document: JsonObject = self._client.request("GET", path)
        except NotFound as error:
            raise not_found_refusal(VMI, name) from error
        check_session(decode(VirtualMachineInstance, document))
        before = document["spec"]["domain"]["launchSecurity"]["sev"]
        after = {**before, "session": session.session, "dhCert": session.dh_cert}
        # By what was read: of two sessions that come at once the first one counts.
        operations = [
            {"op": "test", "path": _SEV, "value": before},
            {"op": "replace", "path": _SEV, "value": after},
        ]
        query = {"dryRun": "All"} if session.is_dry_run else {}
        try:
            self._client.request("PATCH", path, operations, query, _JSON_PATCH)
        except KubeError as error:
            raise internal(error.message or str(error)) from error


def read_session(body: bytes) -> SevSessionOptions:
    """The session in a body. Raises Refusal."""
    if not body.strip():
        raise bad_request("Request with no body: SEV session parameters are required")
    session = parse_options(SevSessionOptions, body)
    if not session.session:
        raise bad_request("Session blob is required")
    if not session.dh_cert:
        raise bad_request("DH cert is required")
    for name, blob in (("session", session.session), ("dhCert", session.dh_cert)):
        if not is_blob(blob):
            raise bad_request(f"{name}: it is no base64, or too long")
    return session
