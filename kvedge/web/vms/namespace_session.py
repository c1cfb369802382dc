"""The user's session in the namespace of the VM that a page shows, for calls that end in time. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kvedge.client.session import Session, check_name

# One answer that takes longer is a server that hangs.
_SECONDS: Final = 20.0


def enter_namespace(session: Session, namespace: str) -> Session:
    """The same session there.

    Raises:
        UsageError: for a name that no namespace can have.
    """
    return replace(session, namespace=check_name(namespace, "namespace"), client=session.client.hurry(_SECONDS))
