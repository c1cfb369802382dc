"""A USB device of this computer in one of a guest's slots, for as long as usbredirect hands it over.

Called by `kvedge usbredir`. Listens on this computer and may start usbredirect, which has the device.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kvedge.cli.guests.program_join import LocalProgram, join_program
from kvedge.cli.guests.stream_runs import run_here
from kvedge.client.session import Session
from kvedge.client.streams.stream_client import StreamClient
from kvedge.client.subresources import VMI
from kvedge.resources.values.host_ports import join_address

# No other computer may hand devices over by us.
_ADDRESS: Final = ("127.0.0.1", 0)
# A slot is held while nobody has a device there: a proxy must not take that for the end.
_HEARTBEAT_SECONDS: Final = 20.0


def redirect(session: Session, vmi: str, device: str, program: str) -> None:
    """Until the device or the guest is gone; without a `program` another usbredir client that comes is served.

    Raises:
        Refused: when there is no slot to be had, or the program does not come.
    """
    run_here(_redirect(session, vmi, device, program))


async def _redirect(session: Session, vmi: str, device: str, program: str) -> None:
    async with StreamClient(session) as client:
        stream = await client.open_or_explain(VMI, vmi, "usbredir", heartbeat=_HEARTBEAT_SECONDS)
        try:
            ours = LocalProgram("usbredirect", partial(make_command, program, device)) if program else None
            await join_program(stream, _ADDRESS, ours, _tell_place)
        finally:
            await stream.close()


def make_command(program: str, device: str, place: str) -> list[str]:
    """The argv of usbredirect for a device, at a place."""
    return [program, "--device", device, "--to", place]


def _tell_place(host: str, port: int) -> None:
    # As virtctl has it; a caller behind a pipe waits for this line.
    print(f"User can connect usbredir client at: {join_address(host, port)}", flush=True)
