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
from kvedge.api.subresources.guest_info_message import guest_agent_info, guest_filesystem_list, guest_user_list
from kvedge.api.subresources.guest_rules import OWNER_CHECKS, check_guest, check_owner
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.status_message import Refusal, internal, not_there_yet
from kvedge.resources.codec import JsonObject
from kvedge.resources.guest_verbs import GuestVerb
from kvedge.resources.types.vmi import VirtualMachineInstance

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RELEASE: Final = ".".join(__version__.split(".")[:2])
# Of the statuses that a relay makes of a launcher's answer, those that judge the guest.
_LAUNCHERS_REFUSALS: Final = frozenset({400, 409, 500})
# Pictures that are in memory here at the same time; a further one waits.
_PICTURES: Final = 2
# As pictures; each takes as long as its user wants, up to a minute.
_CAPTURES: Final = 2
_CAPTURE_PARAMETERS: Final = ("interface", "bytes", "seconds")
_LOG_PARAMETERS: Final = ("tailBytes", "previous")
# What users are shown of the facts that a guest tells.
FACTS: Final[Mapping[str, Callable[[JsonObject], JsonObject]]] = {
    "guestosinfo": guest_agent_info,
    "userlist": guest_user_list,
    "filesystemlist": guest_filesystem_list,
}


class GuestCalls:
    """These calls of one api role; made and used in one event loop. Each method makes a verb's handler."""

    def __init__(self, cluster: ClusterReader, relay: RelayClient) -> None:
        self._cluster = cluster
        self._relay = relay
        self._pictures = asyncio.Semaphore(_PICTURES)
        self._captures = asyncio.Semaphore(_CAPTURES)

    async def checked(self, request: web.Request, verb: GuestVerb) -> VirtualMachineInstance:
        """The VMI of a call, after all checks of the verb. Raises Refusal."""
        vmi = await self._cluster.vmi(request.match_info["namespace"], request.match_info["name"])
        if not OWNER_CHECKS.keys().isdisjoint(verb.checks) and (vm := await self._cluster.owner(vmi)) is not None:
            check_owner(vm, verb.checks)
        check_guest(vmi, verb.checks)
        return vmi

    def change(self, verb: GuestVerb) -> Handler:
        """The launcher does it."""

        async def handle(request: web.Request) -> web.StreamResponse:
            kind = OPTIONS.get(verb.name, CallOptions)
            options = await asyncio.to_thread(parse_options, kind, await request.read())
            told = options.for_relay()
            vmi = await self.checked(request, verb)
            if not options.is_dry_run:
                await self._tell(vmi, verb, told)
            return web.Response(status=200)

        return handle

    async def _tell(self, vmi: VirtualMachineInstance, verb: GuestVerb, options: JsonObject) -> None:
        try:
            await self._relay.call(vmi, verb.method, verb.name, options or None)
        except Refusal as error:
            if verb.way == "command":
                raise command_failed(verb.name, error) from error
            raise

    def facts(self, verb: GuestVerb) -> Handler:
        """What the guest's agent tells; refusals are plain text, as KubeVirt's."""

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
        """What the handler of the guest's node knows of it."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.checked(request, verb)
            return web.json_response(await self._relay.call(vmi, verb.method, verb.name))

        return handle

    def capture(self, verb: GuestVerb) -> Handler:
        """Frames of one of the guest's NICs, as a file; the relay judges the parameters."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.checked(request, verb)
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
                    picture = await self._relay.download(vmi, verb.name, told_flags(request, verb))
            except Refusal as error:
                raise as_text(error) from error
            return web.Response(body=picture, content_type="image/png")

        return handle

    def console_log(self, verb: GuestVerb) -> Handler:
        """What is kept of the serial console."""

        async def handle(request: web.Request) -> web.StreamResponse:
            vmi = await self.checked(request, verb)
            query = {key: request.query[key] for key in _LOG_PARAMETERS if key in request.query}
            text = await self._relay.download(vmi, verb.name, query)
            # What a guest has written is never a page.
            headers = {"X-Content-Type-Options": "nosniff"}
            return web.Response(body=text, content_type="application/octet-stream", headers=headers)

        return handle

    def later(self, verb: GuestVerb) -> Handler:
        """A verb that kvedge does not have yet; a guest without the device is refused as KubeVirt refuses it."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if verb.checks:
                await self.checked(request, verb)
            raise not_there_yet(verb.asked, RELEASE)

        return handle


def told_flags(request: web.Request, verb: GuestVerb) -> dict[str, str]:
    """Those parameters of a verb that the relay is told: the ones that are on."""
    return {flag: "true" for flag in verb.flags if request.query.get(flag) == "true"}


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
