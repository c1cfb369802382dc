"""start, stop and restart of a VM: reads it, asks the table, writes what the table says.

Called by the subresource server in a worker thread, as the API client blocks. A write names the version that was read;
when somebody else was faster the call is decided again from the start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from kvedge.api.subresources.call_options import RestartOptions, StartOptions, StopOptions, parse_options
from kvedge.api.subresources.power_rules import (
    ALREADY_RUNNING,
    Ask,
    Call,
    Effect,
    OnlySooner,
    Presence,
    Refuse,
    Run,
    effect_of,
    presence_of,
)
from kvedge.api.subresources.status_message import VM, bad_request, conflict, internal, not_found_refusal
from kvedge.kube.errors import Conflict, Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch, at_version
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.guest_verbs import GuestVerb
from kvedge.resources.meta import condition
from kvedge.resources.moves.crossing import describe_hold
from kvedge.resources.types.vm import StateChangeRequest, VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import grace_seconds

_TRIES: Final = 5
# A forced restart gives the guest a second: 0 would end it before its disks are flushed.
_FORCED_GRACE_SECONDS: Final = 1


class PowerCalls:
    """The three calls for the VMs of one API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def start(self, namespace: str, name: str, options: StartOptions) -> None:
        """Have it run. Raises Refusal."""
        data = {"paused": "true"} if options.paused else {}
        self._decide("start", namespace, name, None, data, options.is_dry_run)

    def stop(self, namespace: str, name: str, options: StopOptions) -> None:
        """Have it not run. Raises Refusal."""
        if options.grace_period is not None and options.grace_period < 0:
            raise bad_request("gracePeriod has to be greater or equal to 0")
        self._decide("stop", namespace, name, options.grace_period, {}, options.is_dry_run)

    def restart(self, namespace: str, name: str, options: RestartOptions) -> None:
        """End this run and begin another. Raises Refusal."""
        grace = options.grace_period_seconds
        if grace is not None and grace > 0:
            raise bad_request("For force restart, only gracePeriod=0 is supported for now")
        if grace is not None and grace < 0:
            raise bad_request("gracePeriod has to be greater or equal to 0")
        forced = None if grace is None else _FORCED_GRACE_SECONDS
        self._decide("restart", namespace, name, forced, {}, options.is_dry_run)

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> None:
        """What a verb of the table asks, with its options in the body. Raises Refusal."""
        POWER[verb.name](self, namespace, name, body)

    def _decide(
        self, call: Call, namespace: str, name: str, grace: int | None, data: dict[str, str], dry_run: bool
    ) -> None:
        for _ in range(_TRIES):
            vm = self._vm(namespace, name)
            vmi = self._vmi(vm)
            effect = effect_of(call, vm.run_strategy, presence_of(vmi, call))
            plan = _Plan(call, vm, vmi, grace, data)
            plan.check(effect)
            if call != "stop" and (hold := describe_hold(vm)):
                raise conflict(VM, name, f"VM does not start: {hold}")
            if dry_run:
                return
            try:
                self._apply(plan, effect)
            except Conflict:
                continue  # The VM has moved on since it was read.
            except Invalid as error:
                raise conflict(VM, name, error.message) from error
            except KubeError as error:
                raise internal(error.message) from error
            return
        raise conflict(VM, name, "the object has been modified; please apply your changes to the latest version")

    def _apply(self, plan: _Plan, effect: Effect) -> None:
        hurried = plan.vmi if plan.grace is not None and plan.presence == "live" else None
        if hurried is not None:
            self._set_grace(hurried, plan.grace)
        try:
            self._write(plan, effect)
        except KubeError:
            if hurried is not None:
                # The stop has failed: its short grace period must not end the next shutdown early. A run that has ended
                # has none.
                with contextlib.suppress(NotFound, Conflict):
                    self._set_grace(hurried, hurried.spec.termination_grace_period_seconds)
            raise

    def _set_grace(self, vmi: VirtualMachineInstance, seconds: int | None) -> None:
        # Against the run that was seen, never one that came after it.
        body = {"metadata": {"uid": vmi.metadata.uid}, "spec": {"terminationGracePeriodSeconds": seconds}}
        self._client.patch(VirtualMachineInstance, vmi.metadata.namespace, vmi.metadata.name, MergePatch(body))

    def _write(self, plan: _Plan, effect: Effect) -> None:
        namespace, name = plan.vm.metadata.namespace, plan.vm.metadata.name
        requests = plan.requests(effect)
        version = plan.vm.metadata.resource_version
        if requests is not None:
            status = {"stateChangeRequests": requests, "startFailure": None}
            self._client.patch(VirtualMachine, namespace, name, at_version({"status": status}, version), "status")
        elif isinstance(effect, Run):
            spec = {"running": effect.on} if plan.vm.spec.running is not None else {"runStrategy": _strategy(effect)}
            written = self._client.patch(VirtualMachine, namespace, name, at_version({"spec": spec}, version))
            if written.status.start_failure is not None:
                self._client.patch(
                    VirtualMachine, namespace, name, MergePatch({"status": {"startFailure": None}}), "status"
                )

    def _vm(self, namespace: str, name: str) -> VirtualMachine:
        try:
            return self._client.get(VirtualMachine, namespace, name)
        except NotFound as error:
            raise not_found_refusal(VM, name) from error

    def _vmi(self, vm: VirtualMachine) -> VirtualMachineInstance | None:
        try:
            vmi = self._client.get(VirtualMachineInstance, vm.metadata.namespace, vm.metadata.name)
        except NotFound:
            return None
        owner = vmi.metadata.controller_reference()
        # A VMI of that name which somebody made by hand is not this VM's run.
        return vmi if owner is not None and owner.uid == vm.metadata.uid else None


# The implementation of each verb of the way `power`.
POWER: Final[Mapping[str, Callable[[PowerCalls, str, str, bytes], None]]] = {
    "start": lambda calls, at, name, body: calls.start(at, name, parse_options(StartOptions, body)),
    "stop": lambda calls, at, name, body: calls.stop(at, name, parse_options(StopOptions, body)),
    "restart": lambda calls, at, name, body: calls.restart(at, name, parse_options(RestartOptions, body)),
}


class _Plan:
    """What is known of one call, and the documents that follow from it."""

    def __init__(
        self,
        call: Call,
        vm: VirtualMachine,
        vmi: VirtualMachineInstance | None,
        grace: int | None,
        data: dict[str, str],
    ) -> None:
        self.call = call
        self.vm = vm
        self.vmi = vmi
        self.grace = grace
        self.data = data

    @property
    def presence(self) -> Presence:
        return presence_of(self.vmi, self.call)

    def check(self, effect: object) -> None:
        """Raises Refusal when the call cannot be."""
        name = self.vm.metadata.name
        if (
            self.call == "start"
            and effect != ALREADY_RUNNING
            and (text := self._read_condition("ManualRecoveryRequired"))
        ):
            raise conflict(VM, name, f"VM recovery required: {text}")
        if self.call == "restart" and (text := self._read_condition("VolumesChange")):
            waits = "the VM cannot be restarted while its volumes change, as some targets are incomplete"
            raise conflict(VM, name, f"VM recovery required: {waits}: {text}; wait, or put the original claims back")
        if isinstance(effect, Refuse):
            raise conflict(VM, name, effect.detail)
        if "paused" in self.data and self._is_asked_whether_it_lives():
            # As of a template with both: the run that would come of it could not even be made.
            raise conflict(VM, name, "Pausing VMI with LivenessProbe is not supported")
        if isinstance(effect, OnlySooner) and not self._is_sooner():
            raise conflict(VM, name, effect.otherwise)
        if self.requests(effect) is not None and self._is_underway(effect):
            raise internal("unable to complete request: stop/start already underway")

    def requests(self, effect: object) -> list[JsonObject] | None:
        """The requests for the controller, or None when the spec or nothing is written instead."""
        if isinstance(effect, Run):
            # A paused start is told by a request: the spec has no word for it.
            return [encode(StateChangeRequest(action="Start", data=self.data))] if self.data else None
        if not isinstance(effect, Ask):
            return None
        made = []
        if effect.stop and self.vmi is not None:
            made.append(StateChangeRequest(action="Stop", uid=self.vmi.metadata.uid))
        if effect.start:
            made.append(StateChangeRequest(action="Start", data=self.data))
        return [encode(request) for request in made]

    def _is_asked_whether_it_lives(self) -> bool:
        template = self.vm.spec.template
        return template is not None and template.spec.liveness_probe is not None

    def _read_condition(self, type_: str) -> str:
        """What a condition of the VM says while it is True."""
        found = condition(self.vm.status.conditions, type_)
        return found.message or type_ if found is not None and found.status == "True" else ""

    def _is_underway(self, effect: object) -> bool:
        """Whether requests are there already; a lone stop replaces them."""
        lone_stop = isinstance(effect, Ask) and effect.stop and not effect.start
        return bool(self.vm.status.state_change_requests) and not lone_stop

    def _is_sooner(self) -> bool:
        if self.grace is None or self.vmi is None:
            return False
        return self.grace < grace_seconds(self.vmi)


def _strategy(effect: Run) -> str:
    return "Always" if effect.on else "Halted"
