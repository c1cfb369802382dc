"""Orders to a guest by its agent: to shut down, to reboot. An agent that obeys does not answer.

Kept by `guest_agent`; given by the run, which goes another way when the agent does not take the order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from kvedge.launcher.agent.agent_line import AgentLine
from kvedge.launcher.agent.agent_schedule import Question
from kvedge.launcher.agent.guest_freeze import GuestFreeze, now
from kvedge.launcher.launcher_errors import LauncherError
from kvedge.runtime.background import passing_thread

log = logging.getLogger(__name__)

# How long an order waits for its turn. A busy agent is not the only way to give it.
ORDER_TURN_SECONDS: Final = 1.5
# An agent that does not refuse so soon has taken the order to shut down, which is repeated if nothing comes of it.
SHUTDOWN_SECONDS: Final = 1.0
# An order to reboot is not repeated: longer than the silence after which libvirt gives up.
REBOOT_SECONDS: Final = 7.0


class AgentOrders:
    """The orders to one agent; methods may be called from any thread."""

    def __init__(self, line: AgentLine, freeze: GuestFreeze) -> None:
        self._line = line
        self._freeze = freeze

    def give(self, what: Callable[[], None], seconds: float) -> bool:
        """Whether the agent takes an order, that is, does not refuse it so soon; `what` may block until it is done."""
        with self._line.changed:
            able = self._line.state.takes_orders(promised=self._freeze.is_on)
        if not able or not self._line.talking.acquire(timeout=ORDER_TURN_SECONDS):
            return False
        refused: list[Exception] = []
        done = threading.Event()

        def obey() -> None:
            try:
                what()
            except LauncherError as error:
                log.info("the agent did not obey", extra={"facts": {"why": str(error)}})
                refused.append(error)
                with self._line.changed:
                    # The next order goes another way, unless it speaks again.
                    self._line.state.schedule.note_silence(Question.FREEZE_STATUS, now())
            except Exception as error:
                refused.append(error)
                raise
            finally:
                self._line.talking.release()
                done.set()

        passing_thread("guest-agent-order", obey)
        done.wait(seconds)
        return not refused
