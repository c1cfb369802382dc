"""The kubelet's loop: for each Pod of this node, look, plan, do, say.

Started by the node agent. What runs is read from this node before the API is asked; the Pods' informer is handed in,
as the scheduler uses it too.
"""

from __future__ import annotations

import logging
import time
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.kube.errors import NotFound
from kvedge.kube.informer import Informer
from kvedge.kube.patches import at_version
from kvedge.kube.reconcile_loop import Again, backoff
from kvedge.kube.work_queue import Key, WorkQueue
from kvedge.network.errors import AddressesExhaustedError
from kvedge.resources.codec import encode
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.types.core import Pod
from kvedge.runtime.clock import Clock, parse_rfc3339
from kvedge.standalone.agent.container.container_state import (
    ContainerState,
    Ended,
    Running,
    container_state,
    make_lost_exit,
    record_exit,
)
from kvedge.standalone.agent.container.container_watch import ContainerWatch
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.network_following import follow, tell_networks
from kvedge.standalone.agent.pod.pod_addresses import PodAddresses
from kvedge.standalone.agent.pod.pod_checks import rejection
from kvedge.standalone.agent.pod.pod_plan import ForgetPod, LookAgain, PodSeen, plan_pod
from kvedge.standalone.agent.pod.pod_probes import PodProbes
from kvedge.standalone.agent.pod.pod_record import new_record, write_pod_record
from kvedge.standalone.agent.pod.pod_resizing import Resizing, follow_size, has_size, sizes_of
from kvedge.standalone.agent.pod.pod_status import StatusFacts, pod_status
from kvedge.standalone.agent.pod.pod_steps import PodSteps, StepError, remove_object
from kvedge.standalone.agent.pod.store_history import StoreHistory

log = logging.getLogger(__name__)

# Pods that are worked on at once: starting one is mostly waiting for the kernel.
WORKERS: Final = 8
# A pass that goes round more often than this has a plan that does not converge; it is left for later.
_MOST_ROUNDS: Final = 20
# The exit code of SIGKILL, which is how the kernel ends what takes too much memory.
_KILLED: Final = 137


class PodLoop(Struct):
    """Runs the Pods of one node."""

    node_name: str
    host_address: str
    boot_id: str
    informer: Informer[Pod]
    pods: LocalPods
    addresses: PodAddresses
    steps: PodSteps
    probes: PodProbes
    watch: ContainerWatch
    clock: Clock
    queue: WorkQueue
    history: StoreHistory
    resizing: Resizing

    def reconcile(self, key: Key) -> Again | None:
        """One pass over everything that has this name.

        Raises:
            KubeError: when the API cannot be asked: tried again by the loop.
        """
        pod = self.informer.get(*key)
        if pod is not None and pod.spec.node_name != self.node_name:
            pod = None
        waits = [
            self._sync_local(local)
            for local in self.pods.find(key)
            if pod is None or local.files.uid != pod.metadata.uid
        ]
        if pod is not None:
            waits.append(self._sync_known(pod))
        due = [wait for wait in waits if wait is not None]
        return Again(min(due)) if due else None

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """The informer's callback."""
        pod = new or old
        if pod is not None and self.node_name in (pod.spec.node_name, old.spec.node_name if old else ""):
            self.queue.add(Key(pod.metadata.namespace, pod.metadata.name))

    def _sync_known(self, pod: Pod) -> float | None:
        local = self.pods.get(pod.metadata.uid)
        if local is None:
            if pod.metadata.deletion_timestamp is not None:
                # Nothing of it is here (any more).
                remove_object(self.steps.client, pod)
                return None
            rejected = rejection(pod)
            if rejected is not None:
                self._say(pod, StatusFacts({}, rejection=rejected, host_address=self.host_address))
                return None
            if pod.status.phase in FINAL_POD_PHASES:
                return None
            local = self._take_on(pod)
            if local is None:
                return 5.0
        elif self.history.note(local.record):
            _write_down(local)
        local.pod, local.gone_since = pod, None
        return self._sync_local(local, known=True)

    def _take_on(self, pod: Pod) -> LocalPod | None:
        record = new_record(pod)
        self.history.note(record)
        if not pod.spec.host_network:
            owner = self.addresses.owner_of(pod)
            try:
                record.owner, record.address = owner.uid, self.addresses.address_for(owner)
                record.ipv6_address = self.addresses.beside(record.address)
            except AddressesExhaustedError as error:
                self.steps.events.record(pod, "Warning", "FailedCreatePodSandBox", str(error))
                return None
        local = self.pods.take_on(pod, record)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            if status.state is not None and (status.state.running or status.state.terminated):
                # It was started once, by an agent whose records are lost: it must not be started again.
                record_exit(local.files.container(status.name), make_lost_exit(time.time()))
        return local

    def _sync_local(self, local: LocalPod, *, known: bool = False) -> float | None:
        if not known and local.gone_since is None:
            self._note_gone(local)
        waits: list[float] = []
        for _ in range(_MOST_ROUNDS):
            seen = self._look(local)
            plan = plan_pod(local.pod, seen, time.time(), _deadline(local.pod))
            waits = [step.after for step in plan if isinstance(step, LookAgain)]
            due = [step for step in plan if not isinstance(step, LookAgain)]
            delay = local.next_try - time.monotonic()
            if due and delay > 0:
                waits.append(delay)
                break
            try:
                changed = [self.steps.apply(local, step) for step in due]
            except StepError as error:
                waits.append(self._note_failure(local, error))
                break
            if any(isinstance(step, ForgetPod) for step in due):
                self.probes.forget(local.files.uid)
                return None
            local.problem, local.failures = None, 0
            if not any(changed):
                break
        if known:
            wait = self._follow_networks(local)
            waits += [] if wait is None else [wait]
            wait = self._follow_size(local)
            waits += [] if wait is None else [wait]
            self.write_status(local)
        return min(waits, default=None)

    def _follow_networks(self, local: LocalPod) -> float | None:
        runs = any(isinstance(state, Running) for state in self._states(local).values())
        return follow(self.steps.places, self.steps.events, local) if runs else None

    def _follow_size(self, local: LocalPod) -> float | None:
        if has_size(local) and local.resize is None:
            return None
        if not any(isinstance(state, Running) for state in self._states(local).values()):
            return None
        return follow_size(self.resizing, self.steps.places, local, lambda it: write_pod_record(it.files, it.record))

    def _note_gone(self, local: LocalPod) -> None:
        if not local.record.forgotten and self.history.has_forgotten(local.record):
            # Written down, as the next agent may find a store that has counted on.
            local.record.forgotten = True
            _write_down(local)
        if local.record.forgotten:
            facts = {"pod": str(local.key), "uid": local.files.uid}
            log.warning(
                "the object store has forgotten a pod: it is shut down, its data is kept", extra={"facts": facts}
            )
        local.gone_since = time.time()

    def _note_failure(self, local: LocalPod, error: StepError) -> float:
        local.failures += 1
        local.problem = error.problem if error.problem.reason else None
        delay = backoff(local.failures + 3, 0.5)
        local.next_try = time.monotonic() + delay
        self.steps.events.record(local.pod, "Warning", error.event, error.problem.message)
        facts = {"pod": str(local.key), "reason": error.event, "error": str(error), "again_in": round(delay, 1)}
        log.warning("a pod's step failed", extra={"facts": facts})
        return delay

    def _look(self, local: LocalPod) -> PodSeen:
        states = self._states(local)
        for state in states.values():
            if isinstance(state, Running):
                self.watch.watch(local.key, state.pid, state.start_time)
        self.probes.follow(local, states)
        return PodSeen(
            containers=states,
            images=self.steps.pulls.problems(local.files.uid),
            placed=local.place is not None,
            unlimited=not local.cpu_is_limited,
            has_place=not local.released,
            predecessor=self.pods.predecessor(local),
            stop_asked_at=local.stop_asked_at,
            gone_since=local.gone_since,
            forgotten=local.record.forgotten,
            unhealthy=self.probes.unhealthy(local),
            unhealthy_since=local.unhealthy_since,
        )

    def _states(self, local: LocalPod) -> dict[str, ContainerState]:
        names = [item.name for item in (*local.pod.spec.init_containers, *local.pod.spec.containers)]
        return {name: self._state(local, name) for name in names}

    def _state(self, local: LocalPod, name: str) -> ContainerState:
        files = local.files.container(name)
        state = container_state(files, self.boot_id)
        if not isinstance(state, Ended) or state.exit.exit_code != _KILLED or state.exit.reason != "Error":
            return state
        if local.released or not self.steps.places.cgroups.out_of_memory_kills(local.files.uid):
            return state
        found = msgspec.structs.replace(state.exit, reason="OOMKilled")
        record_exit(files, found)
        return Ended(found, state.started_at)

    def write_status(self, local: LocalPod) -> None:
        """Write the Pod's status when it differs from what its object says.

        Raises:
            KubeError: when that fails.
        """
        if local.gone_since is not None:
            return
        tell_networks(self.steps.client, self.informer, local)
        facts = StatusFacts(
            containers=self._states(local),
            images=self.steps.pulls.problems(local.files.uid),
            image_ids=local.record.image_ids,
            probed=self.probes.verdicts(local),
            problem=local.problem,
            sizes=sizes_of(local),
            resize=local.resize,
            rejection=rejection(local.pod),
            addresses=local.record.addresses or ((self.host_address,) if local.pod.spec.host_network else ()),
            host_address=self.host_address,
        )
        local.pod = self._say(local.pod, facts)

    def _say(self, pod: Pod, facts: StatusFacts) -> Pod:
        wanted, known = encode(pod_status(pod, facts, self.clock.now())), encode(pod.status)
        if wanted == known:
            return pod
        change = {key: wanted.get(key) for key in wanted.keys() | known.keys() if wanted.get(key) != known.get(key)}
        meta = pod.metadata
        try:
            written = self.steps.client.patch(
                Pod, meta.namespace, meta.name, at_version({"status": change}, meta.resource_version), "status"
            )
        except NotFound:
            return pod
        self.informer.observe(written)
        return written


def _write_down(local: LocalPod) -> None:
    # A Pod gets its first record with its place: without a place nothing of it has begun.
    if not local.files.record.exists():
        return
    try:
        write_pod_record(local.files, local.record)
    except OSError as error:
        # A full disk: this agent goes by what it has in memory.
        log.warning("a pod's record was not written", extra={"facts": {"pod": str(local.key), "error": str(error)}})


def _deadline(pod: Pod) -> float | None:
    """When a Pod that is being deleted must have ended, in seconds since the epoch."""
    moment = pod.metadata.deletion_timestamp
    # Written in whole seconds, so that up to one is missing.
    return None if moment is None else parse_rfc3339(moment).timestamp() + 1.0
