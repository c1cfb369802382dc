"""Webhooks judge beside the event loop, and a large review keeps no small one from being judged."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from kvedge.api.admission.admission_server import admission_routes
from kvedge.api.admission.judgement import SMALL_BYTES, Judgement
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.served_paths import VALIDATE_PATH
from kvedge.runtime.clock import SystemClock
from tests.support.builders import small_vmi
from tests.support.reviews import request


def test_a_small_review_does_not_wait_for_a_large_one() -> None:
    released = threading.Event()

    def judge(body: bytes) -> str:
        if len(body) > SMALL_BYTES:
            released.wait()
        return threading.current_thread().name

    async def run() -> tuple[str, str]:
        judgement = Judgement()
        large = asyncio.ensure_future(judgement.ask(judge, b"x" * (SMALL_BYTES + 1)))
        small = await judgement.ask(judge, b"x")
        released.set()
        names = small, await large
        judgement.close()
        return names

    assert asyncio.run(run()) == ("admission_0", "admission-large_0")


def test_a_question_to_the_api_server_waits_for_no_call_that_waits_for_its_answer() -> None:
    answered = threading.Event()

    async def run() -> str:
        judgement, loop = Judgement(), asyncio.get_running_loop()
        # Calls of users have all threads of the server, until a webhook has answered.
        loop.set_default_executor(ThreadPoolExecutor(1))
        call = asyncio.ensure_future(asyncio.to_thread(answered.wait))
        name = await judgement.ask_server(lambda: threading.current_thread().name)
        answered.set()
        await call
        judgement.close()
        return name

    assert asyncio.run(run()) == "admission-asking_0"


async def answers(body: bytes) -> tuple[int, list[str]]:
    """What the webhook says, and in which threads it asked for what holds."""
    threads: list[str] = []

    def cluster() -> Cluster:
        threads.append(threading.current_thread().name)
        return Cluster("amd64")

    judgement, application = Judgement(), web.Application()
    application.add_routes(admission_routes(cluster, SystemClock(), judgement))
    async with TestClient(TestServer(application)) as client:
        response = await client.post(VALIDATE_PATH, data=body)
    judgement.close()
    return response.status, threads


def test_the_event_loop_judges_nothing() -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request(small_vmi())}
    assert asyncio.run(answers(msgspec.json.encode(review))) == (200, ["admission_0"])


def test_what_is_no_review_is_a_bad_request() -> None:
    assert asyncio.run(answers(b"[" * 100_000)) == (400, [])
    assert asyncio.run(answers(b"{}")) == (400, [])
