"""How long a VM waits after runs that never ran."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.controller.vm.start_failure_rules import delay_seconds, next_start_failure, seconds_until_retry
from kvedge.resources.types.vm import StartFailure
from kvedge.runtime.clock import rfc3339
from tests.support.builders import NOW, VMI_UID, a_vm, a_vmi, never_ran


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [(1, 10, 15), (2, 40, 60), (3, 90, 135), (4, 160, 240), (5, 250, 300), (6, 300, 300), (60, 300, 300)],
)
def test_delays_are_kubevirts(failures, least, most):
    assert delay_seconds(failures, 0.0) == least
    assert delay_seconds(failures, 1.0) == most


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_no_delay_is_longer_than_five_minutes(failures, jitter):
    assert 10 <= delay_seconds(failures, jitter) <= 300


def test_a_run_that_ends_before_it_ran_is_counted_once():
    vm, vmi = a_vm(), never_ran(a_vmi("Failed"))
    first = next_start_failure(vm, vmi, NOW, 0.0)
    assert first is not None
    assert (first.consecutive_fail_count, first.last_failed_vmi_uid) == (1, VMI_UID)
    assert first.retry_after_timestamp == rfc3339(NOW + timedelta(seconds=10))
    vm.status.start_failure = first
    assert next_start_failure(vm, vmi, NOW + timedelta(seconds=3), 0.0) == first


def test_a_vm_that_fails_three_times_waits_ninety_seconds():
    before = StartFailure(consecutive_fail_count=2, last_failed_vmi_uid="another")
    failure = next_start_failure(a_vm(start_failure=before), never_ran(a_vmi("Failed")), NOW, 0.0)
    assert seconds_until_retry(failure, NOW) == 90


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_guest_that_ran_clears_what_failed_before_it(phase):
    vm = a_vm(start_failure=StartFailure(consecutive_fail_count=4))
    vmi = a_vmi("Running")
    vmi.status.phase = phase
    assert next_start_failure(vm, vmi, NOW, 0.0) is None


@pytest.mark.parametrize("strategy", ["Manual", "Halted"])
def test_a_strategy_that_starts_nothing_forgets(strategy):
    vm = a_vm(strategy, start_failure=StartFailure(consecutive_fail_count=4))
    assert next_start_failure(vm, None, NOW, 0.0) is None


@pytest.mark.parametrize("vmi", [None, a_vmi("Pending"), a_vmi("Scheduled")], ids=["none", "Pending", "Scheduled"])
def test_a_failure_is_remembered_while_the_next_run_is_on_its_way(vmi):
    failure = StartFailure(consecutive_fail_count=4, last_failed_vmi_uid="another")
    assert next_start_failure(a_vm(start_failure=failure), vmi, NOW, 0.0) == failure


def test_a_delay_that_a_controller_with_another_clock_wrote_is_not_waited_for():
    in_an_hour = StartFailure(consecutive_fail_count=1, retry_after_timestamp=rfc3339(NOW + timedelta(hours=1)))
    assert seconds_until_retry(in_an_hour, NOW) == 0.0
    longest = StartFailure(consecutive_fail_count=9, retry_after_timestamp=rfc3339(NOW + timedelta(seconds=300)))
    assert seconds_until_retry(longest, NOW) == 300.0
