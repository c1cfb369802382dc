"""Going down when the Pod is to end: ask the guest, wait for as long as it was granted, then end QEMU.

Called by `launcher_process` after SIGTERM. The handler usually has begun the same already; asking twice does no harm.
"""

from __future__ import annotations

import logging
import time

from kvedge.launcher.launcher_errors import LauncherError
from kvedge.launcher.run.domain_plan import StopStep, StopView, plan_stop
from kvedge.launcher.run.domain_run import DomainRun

log = logging.getLogger(__name__)


def wind_down(run: DomainRun, grace_seconds: float) -> None:
    """Return when the domain has ended, or when there never was one."""
    begun = time.monotonic()
    asked: float | None = None
    while True:
        now = time.monotonic()
        view = StopView(now - begun, None if asked is None else now - asked, grace_seconds)
        step, pause = plan_stop(run.view.verdict(), view)
        if step is StopStep.DONE:
            return
        if step is StopStep.ASK:
            asked = now
        _take(step, run)
        run.state.ended.wait(pause)


def _take(step: StopStep, run: DomainRun) -> None:
    try:
        if step is StopStep.ASK:
            log.info("asking the guest to shut down")
            run.orders.shut_down()
        elif step is StopStep.KILL:
            log.warning("the guest did not shut down in time: ending QEMU")
            run.orders.kill()
    except LauncherError as error:
        # The next round looks at what the domain has become.
        log.warning("could not do it", extra={"facts": {"step": step.value, "why": str(error)}})
