"""The users of a console on a box: each acts with the token that was pasted, at the box's own API server and no other.

Made by `box_console`, called by `console_app` in threads. Asks the API server who a token is; holds nothing itself.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from kvedge.client.kubeconfigs import FoundKubeconfig
from kvedge.client.session import Session, connect
from kvedge.client.usage.guest_usage import look
from kvedge.kube.errors import Forbidden, Unauthenticated
from kvedge.kube.self_review import ask_who
from kvedge.resources.codec import JsonObject
from kvedge.web.console_server import choose_namespace
from kvedge.web.live_rows import LiveRows
from kvedge.web.on_box.pasted_credential import Credential, read_credential
from kvedge.web.sign_in import SignInRefused
from kvedge.web.usage_looks import UsageLooks
from kvedge.web.web_user import WebUser

_ASK_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 20.0
_NAME: Final = "console"
_NOBODY: Final = ("", "system:anonymous")
_ACCOUNT: Final = "system:serviceaccount:"


class BoxUsers:
    """Who may come in: users that the API server knows by their token."""

    def __init__(self, cluster: JsonObject, path: Path) -> None:
        """`cluster` is that of the box's kubeconfig at `path`: its address and its authority, no credential."""
        self._cluster = cluster
        self._path = path

    def open_user(self, text: str) -> WebUser:
        """The user of a pasted credential; its rows are not started yet.

        Raises:
            SignInRefused: when there is no token in it, or the API server does not know the token.
            KubeError: when the API server cannot be asked.
        """
        credential = read_credential(text)
        session = self._connect(credential, credential.namespace or "default")
        try:
            name = find_name(session)
            place = credential.namespace or _home_of(name)
            if place:
                session = replace(session, namespace=place)
            seen = choose_namespace(session, None)
        except BaseException:
            session.client.close()
            raise
        hurried = replace(session, client=session.client.hurry(_LOOK_SECONDS))
        looks = UsageLooks(lambda: look(hurried), time.monotonic)
        return WebUser(session, seen, LiveRows(session, seen), looks, name)

    def _connect(self, credential: Credential, namespace: str) -> Session:
        document: dict[str, Any] = {
            "kind": "Config",
            "current-context": _NAME,
            "clusters": [{"name": _NAME, "cluster": self._cluster}],
            "users": [{"name": _NAME, "user": {"token": credential.token}}],
            "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        }
        return connect(FoundKubeconfig((self._path,), document, _NAME), namespace)


def find_name(session: Session) -> str:
    """As whom the API server knows the session's token.

    Raises:
        SignInRefused: when it does not know it, or no more.
        KubeError: when it cannot be asked.
    """
    try:
        name = ask_who(session.client.hurry(_ASK_SECONDS)).get("username")
    except (Unauthenticated, Forbidden) as error:
        # Nobody in particular has no right even to ask.
        raise SignInRefused("the API server does not know this token, or it has ended") from error
    if not isinstance(name, str) or name in _NOBODY:
        raise SignInRefused("the API server does not know this token, or it has ended")
    return name


def is_known(user: WebUser) -> bool:
    """Whether the API server still knows the user's token; one that cannot be asked knows it.

    Raises:
        KubeError: when it cannot be asked.
    """
    try:
        return find_name(user.session) == user.name
    except SignInRefused:
        return False


def close_user(user: WebUser) -> None:
    """End the user's watches and connections; waits for them."""
    user.rows.stop()
    user.session.client.close()


def _home_of(name: str) -> str:
    """The namespace of a ServiceAccount; empty for another user."""
    return name.removeprefix(_ACCOUNT).partition(":")[0] if name.startswith(_ACCOUNT) else ""
