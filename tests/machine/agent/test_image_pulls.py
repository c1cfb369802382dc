"""Images for Pods from registries that hang, and errors of every kind: others go on, and the Pod says what is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Container, Pod, PodSpec
from kvedge.standalone.agent.pod import image_pulls
from kvedge.standalone.agent.pod.image_pulls import ImagePulls
from kvedge.standalone.agent.pod.pull_queue import AT_ONCE
from kvedge.storage.images.image_store import ImageStore
from tests.support.hostile_archives import LAYERS
from tests.support.slow_registry import PlayedRegistry, played_registry
from tests.support.waiting import wait_until


class _Events:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def record(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        self.told.append((pod.metadata.name, reason, message))


class _Node:
    """The pulls of one node, which may use the given registries though they are on this host."""

    def __init__(self, root: Path, *registries: PlayedRegistry) -> None:
        self.events = _Events()
        self.store = ImageStore(root)
        self.news = threading.Event()
        listed = frozenset(f"127.0.0.1:{registry.port}" for registry in registries)
        # No Pod here has a Secret, so that the API is never asked.
        self.pulls = ImagePulls(
            self.store,
            cast("KubeClient", None),
            cast("EventRecorder", self.events),
            lambda key, delay: self.news.set(),
            listed,
        )

    def ask(self, name: str, reference: str, namespace: str = "default") -> Pod:
        pod = Pod(
            metadata=ObjectMeta(name=name, namespace=namespace, uid=f"uid-{name}"),
            spec=PodSpec(containers=[Container(name="c", image=reference)]),
        )
        self.pulls.ask(pod, reference)
        return pod

    def reason(self, pod: Pod) -> str | None:
        """Why the Pod waits: empty while it is fetched, None when the image is there."""
        problem = self.pulls.problems(pod.metadata.uid)[pod.spec.containers[0].image]
        return None if problem is None else problem.reason

    def message(self, pod: Pod) -> str:
        problem = self.pulls.problems(pod.metadata.uid)[pod.spec.containers[0].image]
        return problem.message if problem else ""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[_Node]:
    made = _Node(tmp_path / "images")
    yield made
    made.pulls.stop()


def _workers() -> list[str]:
    """The processes that get images for this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").parent.parent
    found = " ".join(path.read_text() for path in children.glob("*/children")).split()
    commands = []
    for pid in found:
        try:
            commands.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:
            continue
    return [command for command in commands if "image-worker" in command]


def test_slow_registries_of_one_namespace_do_not_keep_another_from_its_image(tmp_path: Path) -> None:
    with played_registry("blobs") as slow, played_registry() as good:
        node = _Node(tmp_path / "images", slow, good)
        try:
            for number in range(AT_ONCE * 2):
                node.ask(f"slow{number}", slow.reference, "greedy")
            wait_until(lambda: slow.hanging > 0, "a pull hangs")
            pod = node.ask("quick", good.reference, "modest")
            wait_until(lambda: node.reason(pod) is None, "the other namespace has its image")
        finally:
            node.pulls.stop()


@pytest.mark.parametrize("slow_at", ["header", "manifests", "blobs", "token", "redirect"])
def test_a_pull_ends_with_its_pod(tmp_path: Path, slow_at: str) -> None:
    with played_registry(slow_at) as slow, played_registry() as good:
        node = _Node(tmp_path / "images", slow, good)
        try:
            pod = node.ask("gone", slow.reference)
            wait_until(lambda: slow.hanging > 0, "the pull hangs")
            node.pulls.forget(pod.metadata.uid)
            wait_until(lambda: slow.hanging == 0, "its connection is closed")
            wait_until(lambda: not _workers(), "its process has ended")
            assert node.store.users() == frozenset()
            # And the next ones have all places.
            pods = [node.ask(f"next{number}", good.reference, f"ns{number}") for number in range(AT_ONCE)]
            wait_until(lambda: all(node.reason(item) is None for item in pods), "the next ones go on")
        finally:
            node.pulls.stop()


_AGENT = """
import sys
from pathlib import Path
from tests.machine.agent.test_image_pulls import _Node
from tests.support.slow_registry import PlayedRegistry

node = _Node(Path(sys.argv[1]), PlayedRegistry(port=int(sys.argv[2])))
node.ask("slow", f"127.0.0.1:{sys.argv[2]}/a/b:1")
print("asked", flush=True)
sys.stdin.readline()
node.pulls.stop()
print("stopped", flush=True)
"""


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_pull_that_hangs_neither_keeps_the_program_from_ending_nor_outlives_it(tmp_path: Path, how: str) -> None:
    with played_registry("blobs") as slow:
        process = subprocess.Popen(
            [sys.executable, "-c", _AGENT, str(tmp_path / "images"), str(slow.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        wait_until(lambda: slow.hanging > 0, "the pull hangs")
        if how == "stopped":
            process.stdin.write("stop\n")
            process.stdin.flush()
            assert process.stdout.readline() == "stopped\n"
        else:
            process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdin.close()
        process.stdout.close()
        wait_until(lambda: slow.hanging == 0, "its connection is closed", seconds=30)


_ERRORS = [
    ValueError("embedded null byte"),
    OverflowError("too large"),
    MemoryError(),
    RecursionError("deep"),
    KeyError("x"),
    UnicodeError("x"),
    OSError(24, "Too many open files"),
    RuntimeError("can't start new thread"),
]


@pytest.mark.parametrize("error", _ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["pull_work", "credentials", "hold", "resolve"])
def test_an_error_of_any_kind_is_told_and_tried_again(
    node: _Node, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    class Done:
        def run(self) -> list[Any]:
            return [type("Image", (), {"size": 1})]

        def cancel(self) -> None:
            """Is done."""

    monkeypatch.setattr(image_pulls, "pull_work", fail if place == "pull_work" else lambda *_, **__: Done())
    if place == "credentials":
        monkeypatch.setattr(ImagePulls, "_credentials", fail)
    elif place in ("hold", "resolve"):
        monkeypatch.setattr(ImageStore, place, fail)
    pod = node.ask("odd", "registry.example/a:1")
    wait_until(lambda: node.reason(pod) == "ErrImagePull", "the reason is told")
    assert type(error).__name__ in node.message(pod)
    assert any(reason == "Failed" and type(error).__name__ in text for _, reason, text in node.events.told)
    assert node.news.is_set()

    # It has been told for long enough.
    (asked,) = node.pulls._asked.values()
    asked.waits_from = 0.0
    node.ask("odd", "registry.example/a:1")
    assert node.reason(pod) == "ImagePullBackOff"
    # Its time has come again.
    assert asked.next_try > 0
    asked.next_try = 0.0
    node.ask("odd", "registry.example/a:1")
    wait_until(lambda: asked.failures == 2, "it is tried again")
    assert node.reason(pod) == "ErrImagePull"


@pytest.mark.parametrize(
    "name", ["a huge user", "a huge user of a link", "a huge user of a directory", "a name with a zero byte"]
)
def test_an_image_that_cannot_be_unpacked_is_told_in_its_own_words(tmp_path: Path, name: str) -> None:
    with played_registry(layer=LAYERS[name](1)) as registry:
        node = _Node(tmp_path / "images", registry)
        try:
            pod = node.ask("odd", registry.reference)
            wait_until(lambda: node.reason(pod) == "ErrImagePull", "the reason is told")
            assert "archive holds" in node.message(pod) or "does not exist" in node.message(pod)
        finally:
            node.pulls.stop()


def test_a_policy_that_is_none_is_told(node: _Node) -> None:
    pod = Pod(
        metadata=ObjectMeta(name="odd", namespace="default", uid="uid-odd"),
        spec=PodSpec(containers=[Container(name="c", image="a:1", image_pull_policy="Sometimes")]),
    )
    node.pulls.ask(pod, "a:1")

    assert node.reason(pod) == "ErrImagePull"
    assert "Sometimes" in node.message(pod)


def test_an_image_on_this_host_is_refused_without_telling_whether_anybody_listens(node: _Node) -> None:
    with played_registry() as registry:
        pod = node.ask("nosy", registry.reference)
        wait_until(lambda: node.reason(pod) == "ErrImagePull", "the reason is told")

        assert "this host itself" in node.message(pod)
        assert registry.asked == []
