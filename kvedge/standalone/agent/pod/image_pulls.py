"""Images for Pods: from the store at once, from a registry in the background, with Kubernetes' reasons and back-off.

Called by the Pod loop, which is told when something has changed. A worker process gets each image, so that whatever a
registry or an image does ends there, and ends with the Pod; see `pull_queue` for whose turn it is.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from kvedge.kube.errors import KubeError
from kvedge.kube.events import EventRecorder
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.work_queue import Key
from kvedge.resources.types.core import Pod, Secret
from kvedge.standalone.agent.pod.pod_plan import ImageProblem
from kvedge.standalone.agent.pod.pull_queue import Job, PullQueue
from kvedge.storage.image_errors import ImageError, ImageNotFound, RegistryError
from kvedge.storage.images.image_names import ImageName, InvalidImageName, parse_image_name
from kvedge.storage.images.image_records import Image
from kvedge.storage.images.image_rules import Origin, Pull, Refuse, decide_pull, effective_policy
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.image_work import Cancelled, ImageWork, pull_work
from kvedge.storage.images.registry_logins import docker_credentials

log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 10.0
_LONGEST_DELAY: Final = 300.0
# So long a Pod shows why a pull failed; then it is shown as waiting for the next one, as a kubelet's next look has it.
_SHOWN: Final = 5.0
# An image that only an import can bring is looked for this often.
_LOCAL_DELAY: Final = 3.0
_UNDER_WAY: Final = ImageProblem("", "")

_Wanted = tuple[str, str]


class _Asked(Struct):
    """One Pod's wish for one image."""

    image: Image | None = None
    problem: ImageProblem | None = _UNDER_WAY
    # The problem becomes this at `waits_from`, while the next attempt is still to come.
    waiting: ImageProblem | None = None
    waits_from: float = 0.0
    failures: int = 0
    next_try: float = 0.0
    pulling: bool = False


class _Pull:
    """One attempt to fetch one image for one Pod."""

    def __init__(self, pod: Pod, reference: str, name: ImageName, asked: _Asked, key: Key, fallback: bool) -> None:
        self.pod = pod
        self.reference = reference
        self.name = name
        self.asked = asked
        self.key = key
        self.fallback = fallback
        self._lock = threading.Lock()
        self._work: ImageWork | None = None
        self._cancelled = False

    def work_is(self, work: ImageWork) -> None:
        """What :meth:`cancel` is to end."""
        with self._lock:
            self._work = work
            if self._cancelled:
                work.cancel()

    def cancel(self) -> None:
        """Nobody wants it any more."""
        with self._lock:
            self._cancelled = True
            if self._work is not None:
                self._work.cancel()


class ImagePulls:
    """What each Pod of this node needs of images, and how far that is."""

    def __init__(
        self,
        store: ImageStore,
        client: KubeClient,
        events: EventRecorder,
        on_change: Callable[[Key, float], None],
        insecure: frozenset[str] = frozenset(),
    ) -> None:
        self._store = store
        self._client = client
        self._events = events
        self._on_change = on_change
        self._insecure = insecure
        self._lock = threading.Lock()
        self._asked: dict[_Wanted, _Asked] = {}
        self._queue = PullQueue()
        self._stopping = False

    def stop(self) -> None:
        """End what is under way; a download goes on from there at the next start."""
        self._stopping = True
        self._queue.stop()

    def problems(self, uid: str) -> dict[str, ImageProblem | None]:
        """By reference: None for an image that is there, or why it is not; references nobody asked for are missing."""
        with self._lock:
            return {reference: asked.problem for (pod, reference), asked in self._asked.items() if pod == uid}

    def image(self, uid: str, reference: str) -> Image:
        """An image of which :meth:`problems` said that it is there."""
        with self._lock:
            found = self._asked[uid, reference].image
        assert found is not None
        return found

    def ask(self, pod: Pod, reference: str) -> bool:
        """See to an image; whether it is there now. Waits for no registry: `on_change` tells when there is news."""
        with self._lock:
            asked = self._asked.setdefault((pod.metadata.uid, reference), _Asked())
            if asked.problem is None:
                return True
            if asked.pulling:
                return False
            delay = asked.next_try - time.monotonic()
            if delay > 0 and asked.waiting is not None and time.monotonic() >= asked.waits_from:
                asked.problem, asked.waiting = asked.waiting, None
        key = Key(pod.metadata.namespace, pod.metadata.name)
        if delay > 0:
            self._on_change(key, delay)
            return False
        self._decide(pod, reference, asked, key)
        return asked.problem is None

    def forget(self, uid: str) -> None:
        """The Pod is gone: its images may be removed.

        Raises:
            ImageError: when the store cannot be written.
        """
        self.cancel(uid)
        with self._lock:
            for wanted in [wanted for wanted in self._asked if wanted[0] == uid]:
                del self._asked[wanted]
        self._store.release(uid)

    def cancel(self, uid: str) -> None:
        """The Pod is going: what is fetched for it ends now, and others get their turn."""
        self._queue.cancel(uid)

    def _decide(self, pod: Pod, reference: str, asked: _Asked, key: Key) -> None:
        try:
            self._take_or_pull(pod, reference, asked, key)
        except InvalidImageName as error:
            message = f'Failed to apply default image tag "{reference[:256]}": {error}'
            self._note_failure(pod, reference, asked, key, ImageProblem("InvalidImageName", message), _LONGEST_DELAY)
        except ImageError as error:
            # The store's own files are damaged.
            self._note_failure(pod, reference, asked, key, ImageProblem("ErrImagePull", str(error)), _LOCAL_DELAY)
        except Exception as error:
            log.exception("an image could not be looked for", extra={"facts": {"image": reference[:256]}})
            self._pull_failed(pod, reference, asked, key, _words(error))

    def _take_or_pull(self, pod: Pod, reference: str, asked: _Asked, key: Key) -> None:
        name = parse_image_name(reference)
        decision = decide_pull(name, effective_policy(name, _policy_of(pod, reference)), self._origin(reference))
        if isinstance(decision, Refuse):
            self._note_failure(
                pod, reference, asked, key, ImageProblem(decision.reason, decision.message), _LOCAL_DELAY
            )
        elif isinstance(decision, Pull):
            self._submit(_Pull(pod, reference, name, asked, key, decision.fallback))
        else:
            self._take(pod, reference, asked)

    def _submit(self, pull: _Pull) -> None:
        with self._lock:
            pull.asked.pulling = True
        meta = pull.pod.metadata
        self._queue.add(Job(meta.namespace, lambda: self._pull(pull), pull.cancel, meta.uid))

    def _origin(self, reference: str) -> Origin | None:
        try:
            return self._store.resolve(reference).origin
        except ImageNotFound:
            return None

    def _take(self, pod: Pod, reference: str, asked: _Asked) -> None:
        image = self._store.hold(reference, pod.metadata.uid)
        with self._lock:
            asked.image, asked.problem, asked.pulling = image, None, False

    def _pull(self, pull: _Pull) -> None:
        """One attempt, in a thread of its own; whatever happens is told, and tried again later."""
        pod, reference, asked, key = pull.pod, pull.reference, pull.asked, pull.key
        try:
            self._events.record(pod, "Normal", "Pulling", f'Pulling image "{reference}"')
            note = self._fetch(pull)
            self._take(pod, reference, asked)
            with self._lock:
                wanted = self._asked.get((pod.metadata.uid, reference)) is asked
            if not wanted:
                # The Pod went while its image was taken.
                self._store.release(pod.metadata.uid)
                return
        except Cancelled:
            # The Pod is going, or the agent is: neither waits for news.
            with self._lock:
                asked.pulling = False
        except (ImageError, KubeError) as error:
            self._pull_failed(pod, reference, asked, key, str(error))
        except Exception as error:
            log.exception("a pull failed in an unforeseen way", extra={"facts": {"image": reference}})
            self._pull_failed(pod, reference, asked, key, _words(error))
        else:
            self._events.record(pod, "Normal", "Pulled", note)
            self._on_change(key, 0.0)

    def _fetch(self, pull: _Pull) -> str:
        """Get the image into the store; what the event says of it."""
        begun = time.monotonic()
        credentials = self._credentials(pull.pod)
        # A Pod's author is no administrator of this host: see `own_host`.
        work = pull_work(self._store, pull.reference, credentials, self._insecure, own_host=False)
        pull.work_is(work)
        try:
            [image] = work.run()
        except RegistryError as error:
            if not (pull.fallback and error.temporary):
                raise
            return f'Container image "{pull.name}" is used as it is in the local store: {error}'
        took = time.monotonic() - begun
        return f'Successfully pulled image "{pull.reference}" in {took:.3f}s. Image size: {image.size} bytes.'

    def _pull_failed(self, pod: Pod, reference: str, asked: _Asked, key: Key, error: str) -> None:
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(asked.failures, 10))
        self._events.record(pod, "Warning", "Failed", f'Failed to pull image "{reference}": {error}')
        with self._lock:
            message = f'Back-off pulling image "{reference}": ErrImagePull: {error}'
            asked.waiting = ImageProblem("ImagePullBackOff", message)
            asked.waits_from = time.monotonic() + _SHOWN
        problem = ImageProblem("ErrImagePull", f'Failed to pull image "{reference}": {error}')
        self._note_failure(pod, reference, asked, key, problem, delay)
        if not self._stopping:
            self._on_change(key, _SHOWN)

    def _note_failure(
        self, pod: Pod, reference: str, asked: _Asked, key: Key, problem: ImageProblem, delay: float
    ) -> None:
        if asked.problem == _UNDER_WAY:
            self._events.record(pod, "Warning", "Failed", f"Error: {problem.reason}: {problem.message}")
        with self._lock:
            asked.problem, asked.pulling = problem, False
            asked.failures += 1
            asked.next_try = time.monotonic() + delay
        if not self._stopping:
            self._on_change(key, 0.0)
            self._on_change(key, delay)

    def _credentials(self, pod: Pod) -> Mapping[str, tuple[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        for reference in pod.spec.image_pull_secrets:
            secret = self._client.get(Secret, pod.metadata.namespace, reference.name)
            try:
                document = base64.b64decode(secret.data.get(".dockerconfigjson", ""))
            except ValueError as error:
                raise ImageError(f"the imagePullSecret {reference.name} is not base64") from error
            if document:
                found |= docker_credentials(document)
        return found


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _policy_of(pod: Pod, reference: str) -> str:
    """The strictest policy that the Pod names for an image: Always before the others."""
    containers = [
        item.image_pull_policy for item in (*pod.spec.init_containers, *pod.spec.containers) if item.image == reference
    ]
    volumes = [item.image.pull_policy for item in pod.spec.volumes if item.image and item.image.reference == reference]
    named = [policy for policy in (*containers, *volumes) if policy]
    return "Always" if "Always" in named else (named[0] if named else "")
