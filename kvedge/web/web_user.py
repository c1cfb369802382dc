"""For whom a session acts, and what all pages of that user share.

Made by `console_server`, read by `console_app` and `page_calls`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvedge.client.session import Session
from kvedge.web.live_rows import LiveRows
from kvedge.web.usage_looks import UsageLooks


@dataclass(frozen=True, slots=True, eq=False)
class WebUser:
    """The client of that user, the rows that this user may see, and what guests use.

    `place` is the namespace whose objects are listed, None for all. `name` is the API server's for a user who has
    signed in with a token.
    """

    session: Session
    place: str | None
    rows: LiveRows
    looks: UsageLooks
    name: str = ""
