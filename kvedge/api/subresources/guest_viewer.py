"""A user who looks at a console or a display, and how such a session ends for a client of KubeVirt's.

Used by stream_calls.py in the server's event loop.

When a guest ends, or another user takes the stream over, KubeVirt only drops the connection: clients see the code 1006,
at which virtctl tells what may have happened, and others connect anew. A close frame with 1000 looks to them as if the
user had ended the session. What else ends a session keeps its code and its reason.
"""

from __future__ import annotations

from typing import Final

from kvedge.runtime.serving.stream_pump import LEFT, Farewell
from kvedge.runtime.serving.websocket_viewer import WebSocketViewer

_NORMAL: Final = 1000


class GuestViewer(WebSocketViewer):
    """A websocket that ends as KubeVirt's do."""

    async def close(self, farewell: Farewell) -> None:
        """End it; without a close frame when the guest's side ended in order and the viewer did not leave itself."""
        if farewell.code == _NORMAL and farewell != LEFT:
            await self.drop(farewell)
        else:
            await super().close(farewell)
