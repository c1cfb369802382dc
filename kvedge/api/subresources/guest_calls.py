"""The calls that go to a guest by its node's relay: changes, its agent's facts, a picture of its screen, its log.

Used by subresource_server.py in the server's event loop. Which checks a verb needs stands in the table of guest verbs;
what they ask is in guest_rules.py. The launcher, behind the node's relay, has the last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from kvedge import __version__
from kvedge.api.subresources.call_options import OPTIONS, CallOptions, parse_options
from kvedge.api.subresources.cluster_reader import ClusterReader
from kvedge.api.subresources.guest_info_message import (
    guest_agent_info,
    guest_filesystem_list,
    guest_user_list,
    migration_progress,
    sev_measurement_info,
    sev_platform_info,
    start_trace,
)
from kvedge.api.subresources.guest_rules import OWNER_CHECKS, check_guest, check_owner
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.status_message import Refusal, internal, not_there_yet
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import TRACE, GuestVerb
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.usage.guest_history import RANGE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RELEASE: Final = ".".join(__version__.split(".")[:2])
# By these statuses of the relay a launcher judges its guest; all others are about the node.
_LAUNCHERS_REFUSALS: Final = frozenset({400, 409, 500})
# The role holds so many pictures in memory at once; a further call waits.
_PICTURES: Final = 2
# So many captures run at once. Each takes as long as its user wants, up to a minute.
_CAPTURES: Final = 2
_CAPTURE_PARAMETERS: Final = ("interface", "bytes", "seconds")
_LOG_PARAMETERS: Final = ("tailBytes", "previous")
# Renders for users the facts of a guest's agent, and of its launcher.
FACTS: Final[Mapping[str, Callable[[JsonObject], JsonObject]]] = {
    "guestosinfo": guest_agent_info,
    "userlist": guest_user_list,
    "filesystemlist": guest_filesystem_list,
    "migration": migration_progress,
    TRACE: start_trace,
    "sev/fetchcertchain": sev_platform_info,
    "sev/querylaunchmeasurement": sev_measurement_info,
}


class GuestCalls:
    """These calls of one api role; made and used in one event loop. Each method makes a verb's handler."""

    def __init__(self, cluster: ClusterReader, relay: RelayClient) -> None:
        self._cluster = cluster
        self._relay = relay
        self._pictures = asyncio.Semaphore(_PICTURES)
        self._captures = asyncio.Semaphore(_CAPTURES)

    async def check_call(self, request: web.Request, verb: GuestVerb) -> VirtualMachineInstance:
        """Find the VMI of a call, and make all checks of the verb. Raises Refusal."""
        vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
        if not OWNER_CHECKS.keys().isdisjoint(verb.checks) and (vm := await self._cluster.owner(vmi)) is not None:
            check_owner(vm, verb.checks)
        check_guest(vmi, verb.checks)
        return vmi

    def change(self, verb: GuestVerb) -> Handler:
        """Have the launcher change its guest."""

        async def handle(request: web.Request) -> web.StreamResponse:
            kind = OPTIONS.get(verb.name, CallOptions)
            options = await asyncio.to_thread(parse_options, kind, await request.read())
            told = options.for_relay()
            vmi = await self.check_call(request, verb)
            if not options.is_dry_run:
                await self._tell(vmi, verb, told)
            return web.Response(status=200)

        return handle

    async def _tell(self, vmi: VirtualMachineInstance, verb: GuestVerb, options: JsonObject) -> None:
        try:
            await self._relay.call(vmi, verb.method, verb.name, options or None)
        except Refusal as error:
            if verb.way == "command":
                raise explain_command_failure(verb.name, error) from error
            raise

    def facts(self, verb: GuestVerb) -> Handler:
        """The facts of the guest's agent; refusals are plain text, as KubeVirt's."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
            try:
                check_guest(vmi, verb.checks)
                found = await self._relay.call(vmi, verb.method, verb.name)
            except Refusal as error:
                raise as_text(error) from error
            return web.json_response(FACTS[verb.name](found))

        return handle

    def of_node(self, verb: GuestVerb) -> Handler:
        """The facts of the guest's node: its handler answers."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.check_call(request, verb)
            return web.json_response(await self._relay.call(vmi, verb.method, verb.name))

        return handle

    def usage(self, verb: GuestVerb) -> Handler:
        """What the guest has used over time; the relay judges the parameter."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.check_call(request, verb)
            query = {RANGE: request.query[RANGE]} if RANGE in request.query else {}
            return web.json_response(await self._relay.call(vmi, verb.method, verb.name, query=query))

        return handle

    def capture(self, verb: GuestVerb) -> Handler:
        """Frames of one of the guest's NICs, as a file; the relay judges the parameters."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.check_call(request, verb)
            query = {key: request.query[key] for key in _CAPTURE_PARAMETERS if key in request.query}
            async with self._captures:
                frames = await self._relay.download(vmi, verb.name, query)
            return web.Response(body=frames, content_type="application/vnd.tcpdump.pcap")

        return handle

    def picture(self, verb: GuestVerb) -> Handler:
        """The guest's screen; refusals are plain text, as KubeVirt's."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
            try:
                check_guest(vmi, verb.checks)
                async with self._pictures:
                    picture = await self._relay.download(vmi, verb.name, flags_for_relay(request, verb))
            except Refusal as error:
                raise as_text(error) from error
            return web.Response(body=picture, content_type="image/png")

        return handle

    def console_log(self, verb: GuestVerb) -> Handler:
        """The kept output of the serial console."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.check_call(request, verb)
            query = {key: request.query[key] for key in _LOG_PARAMETERS if key in request.query}
            text = await self._relay.download(vmi, verb.name, query)
            # A browser must not show a guest's output as a page.
            headers = {"X-Content-Type-Options": "nosniff"}
            return web.Response(body=text, content_type="application/octet-stream", headers=headers)

        return handle

    def later(self, verb: GuestVerb) -> Handler:
        """A verb that kvedge does not have yet; a guest without the device is refused as KubeVirt refuses it."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if verb.checks:
                await self.check_call(request, verb)
            raise not_there_yet(verb.asked, RELEASE)

        return handle


def flags_for_relay(request: web.Request, verb: GuestVerb) -> dict[str, str]:
    """The parameters for the relay: those of the verb that the caller has switched on."""
    return {flag: "true" for flag in verb.flags if request.query.get(flag) == "true"}


def explain_command_failure(verb: str, refusal: Refusal) -> Refusal:
    """The refusal of a guest's launcher as KubeVirt words it: an internal error that names the command.

    A node that does not answer keeps its status: the same call may succeed later.
    """
    if refusal.code not in _LAUNCHERS_REFUSALS:
        return refusal
    return internal(f"Internal error occurred: command {verb.capitalize()} failed: {refusal.message}")


def as_text(refusal: Refusal) -> Refusal:
    """The refusal as KubeVirt answers these calls: 500, and its message as plain text."""
    return Refusal(500, refusal.message, plain=True)
