"""The last dump of a guest's memory, waited for.

Called by `kvedge memory-dump download`. Talks to the API server.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

from kvedge.client.errors import NotFoundError, RefusedError, TimedOutError
from kvedge.client.session import Session, check_name
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import Unavailable
from kvedge.resources.disks.memory_dumps import COMPLETED, DISSOCIATING, FAILED
from kvedge.resources.types.vm import VirtualMachine

_LOOK_SECONDS: Final = 0.5


def wait_for_dump(
    session: Session,
    vm: str,
    seconds: float,
    progress: Callable[[], Progress],
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """The claim that has the last dump of a VM, once that is whole.

    Raises:
        NotFoundError: none was asked for.
        RefusedError: it has failed.
        TimedOutError: it takes too long.
    """
    deadline, said = time.monotonic() + seconds, "the API server does not answer"
    with progress() as shown:
        while True:
            with contextlib.suppress(Unavailable):
                request = session.client.get(
                    VirtualMachine, session.namespace, check_name(vm)
                ).status.memory_dump_request
                if request is None or request.phase == DISSOCIATING:
                    raise NotFoundError(f"VM {vm} has no memory dump: `kvedge memory-dump get {vm}` makes one")
                if request.phase == COMPLETED:
                    return str(request.claim_name)
                if request.phase == FAILED:
                    raise RefusedError(f"the memory dump of VM {vm} failed: {request.message or 'it is not told why'}")
                said = f"the memory dump is {request.phase}"
            if time.monotonic() > deadline:
                raise TimedOutError(f"timed out after {seconds:g} s waiting for the memory dump of VM {vm}: {said}")
            shown.show(f"{vm}: {said}")
            pause(_LOOK_SECONDS)
