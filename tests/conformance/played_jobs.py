"""Jobs of one Pod at a time, which a box does not know: the door in front of it plays them.

Called by the played front. Each Job that a spec makes becomes a Pod of the box; whoever asks for the Job learns how
that Pod does, and a Pod that failed is followed by the next one as often as the Job allows.
"""

from __future__ import annotations

import json
import re
import secrets
import string
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

_PATH: Final = re.compile(r"/apis/batch/v1/namespaces/([^/]+)/jobs(?:/([^/]+))?")
_LETTERS: Final = string.ascii_lowercase + string.digits
# Kubernetes' own, for Jobs that say nothing.
_BACKOFF_LIMIT: Final = 6

# A request to the box: method, path, body; the answer, or None where there is no such object.
Ask = Callable[[str, str, dict[str, Any] | None], dict[str, Any] | None]


@dataclass
class _Job:
    document: dict[str, Any]
    failures: int = 0
    ended: str = ""
    pods: list[str] = field(default_factory=list)


class PlayedJobs:
    """The Jobs of a run; may be asked from several threads."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._lock = threading.Lock()

    def takes(self, method: str, path: str) -> bool:
        """Whether a request is about Jobs of one namespace."""
        return path.startswith("/apis/batch/v1/namespaces/")

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Code and document of the answer to a request for Jobs of one namespace."""
        match = _PATH.fullmatch(urlsplit(path).path)
        if match is None or "watch=" in path:
            return 405, refusal(405, "MethodNotAllowed", "Jobs are played: they are made, looked at and deleted")
        namespace, name = match[1], match[2] or ""
        with self._lock:
            if method == "POST" and not name:
                return 201, self._make(namespace, json.loads(body))
            if method == "DELETE":
                self._remove(namespace, name)
                return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
            if method != "GET":
                return 405, refusal(405, "MethodNotAllowed", f"Jobs are played: {method} is not")
            if not name:
                found = [job for (where, _), job in sorted(self._jobs.items()) if where == namespace]
                items = [self._look(namespace, job) for job in found]
                return 200, {"kind": "JobList", "apiVersion": "batch/v1", "metadata": {}, "items": items}
            if (job := self._jobs.get((namespace, name))) is None:
                return 404, refusal(404, "NotFound", f'jobs.batch "{name}" not found')
            return 200, self._look(namespace, job)

    def _make(self, namespace: str, document: dict[str, Any]) -> dict[str, Any]:
        metadata = document["metadata"]
        tail = "".join(secrets.choice(_LETTERS) for _ in range(5))
        name = metadata.get("name") or f"{metadata['generateName']}{tail}"
        document["metadata"] = {**metadata, "name": name, "namespace": namespace}
        document.update(kind="Job", apiVersion="batch/v1", status={})
        job = self._jobs[namespace, name] = _Job(document)
        self._start_pod(namespace, job)
        return document

    def _start_pod(self, namespace: str, job: _Job) -> None:
        template = job.document["spec"]["template"]
        name = f"{job.document['metadata']['name']}-{len(job.pods)}"
        labels = {**(template.get("metadata") or {}).get("labels", {}), "job-name": job.document["metadata"]["name"]}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        self._ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        job.pods.append(name)

    def _look(self, namespace: str, job: _Job) -> dict[str, Any]:
        """The Job's document after a look at its Pod."""
        if not job.ended:
            pod = self._ask("GET", f"/api/v1/namespaces/{namespace}/pods/{job.pods[-1]}", None)
            phase = pod["status"].get("phase", "") if pod else "Failed"
            if phase == "Succeeded":
                job.ended = "Complete"
            elif phase == "Failed":
                job.failures += 1
                if job.failures > job.document["spec"].get("backoffLimit", _BACKOFF_LIMIT):
                    job.ended = "Failed"
                else:
                    self._start_pod(namespace, job)
            job.document["status"] = _status(job)
        return job.document

    def _remove(self, namespace: str, name: str) -> None:
        for key in [key for key in self._jobs if key[0] == namespace and name in ("", key[1])]:
            for pod in self._jobs.pop(key).pods:
                self._ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}", None)


def _status(job: _Job) -> dict[str, Any]:
    conditions = [{"type": job.ended, "status": "True"}] if job.ended else []
    counts = {
        "active": int(not job.ended),
        "failed": job.failures,
        "succeeded": int(job.ended == "Complete"),
    }
    return {**counts, "conditions": conditions}


def refusal(code: int, reason: str, message: str) -> dict[str, Any]:
    """The Status of an answer that is none."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "reason": reason, "message": message, "code": code}
