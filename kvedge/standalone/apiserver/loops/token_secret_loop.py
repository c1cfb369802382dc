"""Writes tokens of service accounts into the Secrets that ask for one, by the type kubernetes.io/service-account-token.

Runs in the API server's event loop; started by `server_parts`. As in Kubernetes, such a Secret names its account in an
annotation, its token does not end by itself, and counts until the Secret or the account is deleted; a Secret whose
account is not there, or is another one by now, is deleted.
"""

from __future__ import annotations

import base64
import logging
from datetime import timedelta
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.access.service_tokens import ISSUER, AccountId, BoundTo, ServiceTokens
from kvedge.standalone.apiserver.kinds.rules.core_rules import ACCOUNT_ANNOTATION, ACCOUNT_TOKEN
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

log = logging.getLogger(__name__)

_SECRETS: Final = "secrets"
_ACCOUNTS: Final = "serviceaccounts"
_UID_ANNOTATION: Final = "kubernetes.io/service-account.uid"
_LIFE: Final = int(timedelta(days=100 * 365).total_seconds())


class TokenSecretLoop:
    """Looks at each such Secret when it changes, and at an account's when the account does."""

    def __init__(self, hub: ObjectHub, actor: ServerActor, tokens: ServiceTokens, authority: bytes) -> None:
        """`authority`: the certificate, in PEM, by which clients know this server."""
        self._hub = hub
        self._actor = actor
        self._tokens = tokens
        self._authority = authority
        self._loop: WorkLoop[ObjectKey] = WorkLoop("tokens in Secrets", self._look)

    def start(self) -> None:
        """Look at what there is, and from then on at what changes."""
        self._hub.cache.on_change(self._notice)
        self._add_all("")
        self._loop.start()

    def stop(self) -> None:
        """End."""
        self._loop.stop()

    def _notice(self, change: Change) -> None:
        key = change.current.key
        if key.resource == _SECRETS and change.type is not ChangeType.DELETED and _asks(change.current):
            self._loop.add(key)
        elif key.resource == _ACCOUNTS and change.type is not ChangeType.MODIFIED:
            self._add_all(key.namespace)

    def _add_all(self, namespace: str) -> None:
        for stored in self._hub.cache.in_namespace(_SECRETS, namespace):
            if _asks(stored):
                self._loop.add(stored.key)

    async def _look(self, key: ObjectKey) -> None:
        stored = self._hub.get(key)
        if stored is None or stored.meta.deletion_timestamp:
            return
        secret = stored.load()
        annotations = secret["metadata"].get("annotations") or {}
        if secret.get("type") != ACCOUNT_TOKEN:
            return
        name = annotations.get(ACCOUNT_ANNOTATION, "")
        account = self._hub.get(ObjectKey(_ACCOUNTS, key.namespace, name))
        if account is None or annotations.get(_UID_ANNOTATION, account.meta.uid) != account.meta.uid:
            log.info("Secret of no account deleted", extra={"facts": {"namespace": key.namespace, "secret": key.name}})
            await self._actor.delete(stored)
        elif not account.meta.deletion_timestamp and not _has_all(secret):
            bound = AccountId(key.namespace, name, account.meta.uid, secret=BoundTo(key.name, stored.meta.uid))
            await self._actor.change(stored, lambda live: self._fill(live, bound))

    def _fill(self, secret: JsonObject, account: AccountId) -> JsonObject:
        """The Secret with what it lacks; a token that it came with stays, and counts for nothing unless it is ours."""
        if account.secret is None or secret["metadata"]["uid"] != account.secret.uid:
            return secret
        data = secret["data"] = secret.get("data") or {}
        if "token" not in data:
            token, _ = self._tokens.issue(account, (ISSUER,), _LIFE)
            data["token"] = _encode(token.encode())
        data.setdefault("ca.crt", _encode(self._authority))
        data.setdefault("namespace", _encode(account.namespace.encode()))
        secret["metadata"].setdefault("annotations", {})[_UID_ANNOTATION] = account.uid
        return secret


def _asks(stored: Stored) -> bool:
    """A cheap look: few Secrets are for tokens."""
    return ACCOUNT_TOKEN.encode() in stored.body


def _has_all(secret: JsonObject) -> bool:
    annotations = secret["metadata"].get("annotations") or {}
    return {"token", "ca.crt", "namespace"} <= set(secret.get("data") or {}) and _UID_ANNOTATION in annotations


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
