"""The upload proxy: takes an image from a client with a token, and leads it to the worker of the token's claim.

Mounted by api_run.py on the role's server, at CDI's paths. A token is checked when a request begins and never again: an
upload may take many hours. Nothing is kept but the chunk that is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from aiohttp import BodyPartReader, hdrs, web

from kvedge.api.transfer_slots import TransferRefused
from kvedge.api.uploads.claim_reader import ClaimReader
from kvedge.api.uploads.upload_rules import (
    UploadPace,
    bearer_token,
    not_ready_yet,
    takes_data,
    too_slow,
    upload_slots,
)
from kvedge.api.uploads.upload_token import BadToken, UploadGrant, read_token
from kvedge.api.uploads.worker_client import WorkerAnswer, WorkerClient
from kvedge.resources.disks.uploads import UPLOAD_ID_HEADER, UPLOAD_OFFSET_HEADER, UPLOAD_PATHS
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.runtime.clock import Clock

log = logging.getLogger(__name__)

# So long a client waits for a worker that is not ready yet.
_READY_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
_PIECE: Final = 64 << 10
# Fields before the file in a form.
_MOST_FIELDS: Final = 16
_LONGEST_FIELD: Final = 64 << 10
_RESUMING: Final = (UPLOAD_OFFSET_HEADER, UPLOAD_ID_HEADER)
_ANYBODY: Final = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    # A line of text is never to be taken for a page.
    "X-Content-Type-Options": "nosniff",
}
_PREFLIGHT: Final = {
    **_ANYBODY,
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "HEAD, GET, POST, PUT, PATCH, DELETE",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Authorization, Content-Type, Accept, Origin, X-Requested-With, "
    f"{UPLOAD_OFFSET_HEADER}, {UPLOAD_ID_HEADER}",
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}


class UploadProxy:
    """The calls; made, used and closed in one event loop."""

    def __init__(
        self, claims: ClaimReader, worker: WorkerClient, keys: Callable[[], Sequence[bytes]], clock: Clock
    ) -> None:
        """`keys` are those that may have signed a token."""
        self._claims = claims
        self._worker = worker
        self._keys = keys
        self._clock = clock
        self._slots = upload_slots()
        # A question is short, but it waits for a worker that is not ready, and holds connections meanwhile.
        self._questions = upload_slots()

    def routes(self) -> list[web.RouteDef]:
        """Everything that is served."""
        routes = []
        for path in sorted(UPLOAD_PATHS):
            routes.append(web.post(path, _render_refusals(self._handle_upload), expect_handler=_await_checks))
            routes.append(web.put(path, _render_refusals(self._handle_upload), expect_handler=_await_checks))
            routes.append(web.head(path, _render_refusals(self._probe)))
            routes.append(web.options(path, _answer_preflight))
        return routes

    async def close(self) -> None:
        """End all connections to workers."""
        await self._worker.close()

    async def _probe(self, request: web.Request) -> web.StreamResponse:
        grant = self._read_grant(request)
        with self._questions.take(grant.namespace):
            claim, address = await self._find(grant)
            return _answer(await self._worker.call(address, claim.metadata.uid, "HEAD", request.path, {}))

    async def _handle_upload(self, request: web.Request) -> web.StreamResponse:
        grant = self._read_grant(request)
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            raise TransferRefused(400, "the header Content-Encoding is not supported: send a compressed image as it is")
        with self._slots.take(grant.namespace):
            claim, address = await self._find(grant)
            facts = {"claim": f"{grant.namespace}/{claim.metadata.name}", "call": request.path}
            log.info("upload begins", extra={"facts": facts})
            answer = await self._send(request, claim, address)
            log.info("upload ended", extra={"facts": {**facts, "status": answer.status}})
        return _answer(answer)

    def _read_grant(self, request: web.Request) -> UploadGrant:
        token = bearer_token(request.headers.get(hdrs.AUTHORIZATION, ""))
        try:
            return read_token(self._keys(), token, self._clock.now())
        except BadToken as error:
            log.info("upload refused", extra={"facts": {"reason": f"the token: {error}"}})
            raise TransferRefused(401, f"the token opens nothing: {error}; ask for a new one") from error

    async def _find(self, grant: UploadGrant) -> tuple[PersistentVolumeClaim, str]:
        """The claim that takes the data, and its worker's address, waited for a while."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _READY_SECONDS
        while True:
            claim = await self._claims.claim(grant.namespace, grant.name)
            if takes_data(claim, grant.name) and claim is not None:
                address = await self._claims.find_worker_address(claim)
                if address:
                    return claim, address
            if loop.time() >= deadline:
                assert claim is not None
                raise not_ready_yet(claim)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _send(self, request: web.Request, claim: PersistentVolumeClaim, address: str) -> WorkerAnswer:
        body = _Body(request)
        headers = {name: request.headers[name] for name in _RESUMING if name in request.headers}
        path, is_form = _plain_path(request.path)
        if not is_form and request.content_length is not None:
            headers[hdrs.CONTENT_LENGTH] = str(request.content_length)
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        pieces = body.read_file() if is_form else body.read_pieces()
        try:
            return await self._worker.call(address, claim.metadata.uid, "POST", path, headers, pieces)
        except TransferRefused as error:
            # The worker's connection ended because the client's did not go on.
            raise body.refusal or error from error


class _Body:
    """A client's data, at the client's pace; `refusal` says what was wrong with it."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._pace = UploadPace()
        self.refusal: TransferRefused | None = None

    async def read_pieces(self) -> AsyncIterator[bytes]:
        """All of the body."""
        while piece := await self._read_piece(self._request.content.readany):
            yield piece

    async def read_file(self) -> AsyncIterator[bytes]:
        """The field `file` of a form."""
        part = await self._find_file_part()
        while piece := await self._read_piece(lambda: part.read_chunk(_PIECE)):
            yield piece

    async def _find_file_part(self) -> BodyPartReader:
        try:
            reader = await self._request.multipart()
            for _ in range(_MOST_FIELDS):
                async with asyncio.timeout(self._pace.patience):
                    part = await reader.next()
                if not isinstance(part, BodyPartReader):
                    break
                if part.name == "file":
                    return part
                await self._skip(part)
        except (ValueError, AssertionError, TimeoutError) as error:
            raise self._note_refusal(TransferRefused(400, "the body is no form: send multipart/form-data")) from error
        raise self._note_refusal(TransferRefused(400, "the form has no field `file` among its first fields"))

    async def _skip(self, part: BodyPartReader) -> None:
        size = 0
        while piece := await self._read_piece(lambda: part.read_chunk(_PIECE)):
            size += len(piece)
            if size > _LONGEST_FIELD:
                raise self._note_refusal(TransferRefused(400, "a field before `file` is too long: send `file` first"))

    async def _read_piece(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        try:
            async with asyncio.timeout(self._pace.patience):
                piece = await read()
            self._pace.note_arrival(loop.time() - begin, len(piece))
        except TimeoutError as error:
            raise self._note_refusal(too_slow()) from error
        except TransferRefused as error:
            raise self._note_refusal(error) from error
        return piece

    def _note_refusal(self, refusal: TransferRefused) -> TransferRefused:
        self.refusal = refusal
        return refusal


def _plain_path(path: str) -> tuple[str, bool]:
    """The worker's path of a call, and whether the call has a form: its file is handed on like any other body."""
    version, call = path.strip("/").split("/")
    return f"/{version}/{call.replace('-form', '')}", "-form" in call


def _answer(answer: WorkerAnswer) -> web.Response:
    # `text` makes it text/plain: nothing of it is ever a page.
    return web.Response(status=answer.status, text=answer.text, headers={**_ANYBODY, **answer.resuming})


def _render_refusals(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Renders refusals."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except TransferRefused as error:
            response = web.Response(status=error.status, text=f"{error.message}\n", headers=_ANYBODY)
            # The rest of what the client sends is not waited for.
            response.force_close()
            return response

    return handle


async def _await_checks(request: web.Request) -> web.StreamResponse | None:
    """A client that asks before it sends is answered once token and claim are known to be good."""
    return None


async def _answer_preflight(request: web.Request) -> web.StreamResponse:
    return web.Response(status=204, headers=_PREFLIGHT)
