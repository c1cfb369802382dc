"""What one page hears of the list: first all rows, then those that changed; a slow page gets fewer, newer messages.

Called by `console_app`, one for each page. There is no backlog: each message is made of the rows as they are then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.web.live_rows import LiveRows, RowKey

# At most four messages a second; and a sign of life at least this often, so that a page knows what it shows is true.
_FLUSH_SECONDS: Final = 0.25
_QUIET_SECONDS: Final = 10.0
# A page that takes nothing for so long has gone.
_SEND_SECONDS: Final = 15.0


def changes(before: Mapping[RowKey, JsonObject], now: Mapping[RowKey, JsonObject]) -> JsonObject:
    """What a page must be told that was last told of `before`; pure."""
    return {
        "rows": [row for key, row in now.items() if before.get(key) != row],
        "gone": [list(key) for key in before if key not in now],
    }


async def feed(socket: web.WebSocketResponse, live: LiveRows) -> None:
    """Send until the page has gone.

    Raises:
        TimeoutError: when the page takes nothing.
    """
    told: Mapping[RowKey, JsonObject] = {}
    is_first, said_at, trouble = True, 0.0, ""
    while not socket.closed:
        seen = live.generation
        if live.is_complete() or live.trouble():
            now, trouble_now = live.rows(), live.trouble()
            message: dict[str, Any] = changes(told, now)
            is_due = time.monotonic() - said_at >= _QUIET_SECONDS
            if is_first or is_due or message["rows"] or message["gone"] or trouble_now != trouble:
                async with asyncio.timeout(_SEND_SECONDS):
                    await socket.send_json({**message, "all": is_first, "trouble": trouble_now})
                told, is_first, said_at, trouble = now, False, time.monotonic(), trouble_now
        await live.wait_changed(seen, _QUIET_SECONDS if not is_first else _FLUSH_SECONDS)
        await asyncio.sleep(_FLUSH_SECONDS)
