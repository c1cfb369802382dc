"""The calls about what goes on inside a guest: its agent's facts, freezing it, and a picture of its screen.

Used by subresource_server.py in the server's event loop. Whether a call makes sense is decided in guest_rules.py; the
launcher, behind the node's relay, has the last word.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from kvedge.api.subresources.call_options import CallOptions, FreezeOptions, parse_options
from kvedge.api.subresources.cluster_reader import ClusterReader
from kvedge.api.subresources.guest_info_message import guest_agent_info, guest_filesystem_list, guest_user_list
from kvedge.api.subresources.guest_rules import check_agent, check_change, check_node, check_vnc
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.status_message import Refusal, bad_request, internal
from kvedge.resources.codec import JsonObject
from kvedge.resources.durations import DurationError, parse_duration
from kvedge.resources.types.vmi import VirtualMachineInstance

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# What a freeze that does not say for how long is given, as in KubeVirt.
_DEFAULT_FREEZE_SECONDS: Final = 300
_LONGEST_FREEZE_SECONDS: Final = 7 * 24 * 3600
# Of the statuses that a relay makes of a launcher's answer, those that judge the guest.
_LAUNCHERS_REFUSALS: Final = frozenset({400, 409, 500})
# Pictures that are in memory here at the same time; who comes later waits.
_PICTURES: Final = 2
_LISTS: Final[Mapping[str, Callable[[JsonObject], JsonObject]]] = {
    "guestosinfo": guest_agent_info,
    "userlist": guest_user_list,
    "filesystemlist": guest_filesystem_list,
}


class GuestCalls:
    """These calls of one api role; made and used in one event loop."""

    def __init__(self, cluster: ClusterReader, relay: RelayClient) -> None:
        self._cluster = cluster
        self._relay = relay
        self._pictures = asyncio.Semaphore(_PICTURES)

    def handler(self, name: str) -> Handler | None:
        """What answers the subresource of that name; None for one that is none of these."""
        if name in _LISTS:
            return self._facts_handler(name)
        return {"freeze": self._freeze, "unfreeze": self._unfreeze, "vnc/screenshot": self._screenshot}.get(name)

    def _facts_handler(self, name: str) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
            try:
                check_agent(vmi)
                check_node(vmi)
                found = await self._relay.call(vmi, "GET", name)
            except Refusal as error:
                raise as_text(error) from error
            return web.json_response(_LISTS[name](found))

        return handle

    async def _freeze(self, request: web.Request) -> web.StreamResponse:
        options = await asyncio.to_thread(parse_options, FreezeOptions, await request.read())
        seconds = freeze_seconds(options)
        vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
        check_change(vmi, "freeze")
        check_node(vmi)
        if not options.is_dry_run:
            await self._command(vmi, "freeze", {"unfreezeSeconds": seconds})
        return web.Response(status=200)

    async def _unfreeze(self, request: web.Request) -> web.StreamResponse:
        options = await asyncio.to_thread(parse_options, CallOptions, await request.read())
        vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
        check_change(vmi, "unfreeze")
        check_node(vmi)
        if not options.is_dry_run:
            await self._command(vmi, "unfreeze", {})
        return web.Response(status=200)

    async def _command(self, vmi: VirtualMachineInstance, verb: str, options: JsonObject) -> None:
        try:
            await self._relay.call(vmi, "PUT", verb, options)
        except Refusal as error:
            raise command_failed(verb, error) from error

    async def _screenshot(self, request: web.Request) -> web.StreamResponse:
        vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
        move = {"moveCursor": "true"} if request.query.get("moveCursor") == "true" else {}
        try:
            check_vnc(vmi)
            check_node(vmi)
            async with self._pictures:
                picture = await self._relay.download(vmi, "vnc/screenshot", move)
        except Refusal as error:
            raise as_text(error) from error
        return web.Response(body=picture, content_type="image/png")


def freeze_seconds(options: FreezeOptions) -> int:
    """For how long, in whole seconds; 0 for until it is undone.

    Raises:
        Refusal: 400 when that is no duration, or none that can be.
    """
    if options.unfreeze_timeout is None:
        return _DEFAULT_FREEZE_SECONDS
    try:
        seconds = parse_duration(options.unfreeze_timeout)
    except DurationError as error:
        raise bad_request(f"Can not unmarshal Request body to struct, error: unfreezeTimeout: {error}") from error
    if not 0 <= seconds <= _LONGEST_FREEZE_SECONDS:
        longest = f"{_LONGEST_FREEZE_SECONDS // 3600}h"
        raise bad_request(f"unfreezeTimeout: {options.unfreeze_timeout} is not between 0s and {longest}")
    return math.ceil(seconds)


def command_failed(verb: str, refusal: Refusal) -> Refusal:
    """What is said when the guest's launcher refuses: an internal error that names the command, as KubeVirt has it.

    A node that does not answer keeps its status: the same call may succeed later.
    """
    if refusal.code not in _LAUNCHERS_REFUSALS:
        return refusal
    return internal(f"Internal error occurred: command {verb.capitalize()} failed: {refusal.message}")


def as_text(refusal: Refusal) -> Refusal:
    """The refusal as KubeVirt answers these calls: 500, and its message as plain text."""
    return Refusal(500, refusal.message, plain=True)
