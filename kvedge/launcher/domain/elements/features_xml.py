"""`<features>`: ACPI, APIC, SMM, Hyper-V and KVM's own.

Hyper-V's enlightenments and paravirtual spinlocks are KVM's work. QEMU's emulation shows a guest none of them, and
refuses to start with some of them asked for; so with emulation they are left out, and a guest made for them runs,
slower. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.libvirt_versions import TLB_FLUSH_DETAILS, require_libvirt
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add, switch
from kvedge.resources.host_devices.cpu_placement import has_dedicated_cpus, is_realtime
from kvedge.resources.types.domain import DomainSpec, Features, FeatureState, Hyperv, is_on

_DEFAULT_SPINLOCKS: Final = 4096
_LONGEST_VENDOR: Final = 12
# QEMU keeps translated code up to a gigabyte; a small guest's working set fits into this, and Pods are sized for it.
_TRANSLATED_MIB: Final = 128


def add_features(domain: Element, spec: DomainSpec, platform: Platform, context: DomainContext) -> None:
    """The features, in the order of libvirt's own documentation.

    Raises:
        ConversionError: for what the architecture does not have, or libvirt does not take.
    """
    features = spec.features or Features()
    element = add(domain, "features")
    if is_on(features.acpi):
        add(element, "acpi")
    if platform.architecture == "aarch64":
        _refuse_on_arm(features)
        _add_gic(element, context)
        _add_translation(element, context)
        return
    if features.apic is not None and is_on(features.apic):
        add(element, "apic", eoi="on" if features.apic.end_of_interrupt else None)
    if not context.emulation:
        _add_hyperv(element, features, context)
    _add_kvm(element, features, dedicated=has_dedicated_cpus(spec) and not context.emulation)
    if features.pvspinlock is not None and not context.emulation:
        add(element, "pvspinlock", state=switch(is_on(features.pvspinlock)))
    if is_realtime(spec) or platform.encryption == "tdx":
        # Its interrupts come at any time; Intel's encrypted guests have none.
        add(element, "pmu", state="off")
    if features.smm is not None:
        add(element, "smm", state=switch(is_on(features.smm)))
    # VMware's port has no users here, and Linux probes it at every boot.
    add(element, "vmport", state="off")
    _add_translation(element, context)


def _add_kvm(parent: Element, features: Features, *, dedicated: bool) -> None:
    if features.kvm is None and not dedicated:
        return
    element = add(parent, "kvm")
    if features.kvm is not None:
        add(element, "hidden", state=switch(features.kvm.hidden))
    if dedicated:
        # The guest's kernel may wait for a lock by spinning: the other vCPU runs.
        add(element, "hint-dedicated", state="on")


def _add_translation(element: Element, context: DomainContext) -> None:
    if context.emulation:
        add(add(element, "tcg"), "tb-cache", str(_TRANSLATED_MIB), unit="MiB")


def _refuse_on_arm(features: Features) -> None:
    for name, asked in (
        ("apic.endOfInterrupt", features.apic is not None and features.apic.end_of_interrupt),
        ("hyperv", features.hyperv is not None),
        ("hypervPassthrough", features.hyperv_passthrough is not None),
        ("kvm.hidden", features.kvm is not None and features.kvm.hidden),
        ("pvspinlock", features.pvspinlock is not None),
        ("smm", features.smm is not None),
    ):
        if asked:
            raise ConversionError(f"spec.domain.features.{name}", "is not there on arm64", "remove it")


def _add_gic(element: Element, context: DomainContext) -> None:
    # With KVM the host's interrupt controller decides: a GICv2 board, such as a Raspberry Pi 4, has no version 3.
    add(element, "gic", version="3" if context.emulation else "host")


def _add_hyperv(parent: Element, features: Features, context: DomainContext) -> None:
    if is_on(features.hyperv_passthrough):
        if features.hyperv is not None:
            raise ConversionError("spec.domain.features.hypervPassthrough", "excludes hyperv", "remove one of the two")
        add(parent, "hyperv", mode="passthrough")
        return
    hyperv = features.hyperv
    if hyperv is None:
        return
    element = add(parent, "hyperv", mode="custom")
    _add_state(element, "relaxed", hyperv.relaxed)
    _add_state(element, "vapic", hyperv.vapic)
    _add_spinlocks(element, hyperv)
    _add_state(element, "vpindex", hyperv.vpindex)
    _add_state(element, "runtime", hyperv.runtime)
    _add_state(element, "synic", hyperv.synic)
    _add_synthetic_timers(element, hyperv)
    _add_state(element, "reset", hyperv.reset)
    _add_vendor(element, hyperv)
    _add_state(element, "frequencies", hyperv.frequencies)
    _add_state(element, "reenlightenment", hyperv.reenlightenment)
    _add_tlb_flush(element, hyperv, context)
    _add_state(element, "ipi", hyperv.ipi)
    _add_state(element, "evmcs", hyperv.evmcs)


def _add_state(parent: Element, name: str, feature: FeatureState | None) -> Element | None:
    return None if feature is None else add(parent, name, state=switch(is_on(feature)))


def _add_spinlocks(parent: Element, hyperv: Hyperv) -> None:
    element = _add_state(parent, "spinlocks", hyperv.spinlocks)
    if element is not None and hyperv.spinlocks is not None and is_on(hyperv.spinlocks):
        retries = hyperv.spinlocks.spinlocks
        element.set("retries", str(_DEFAULT_SPINLOCKS if retries is None else retries))


def _add_synthetic_timers(parent: Element, hyperv: Hyperv) -> None:
    element = _add_state(parent, "stimer", hyperv.synictimer)
    if element is not None and hyperv.synictimer is not None:
        _add_state(element, "direct", hyperv.synictimer.direct)


def _add_vendor(parent: Element, hyperv: Hyperv) -> None:
    element = _add_state(parent, "vendor_id", hyperv.vendorid)
    if element is None or hyperv.vendorid is None or not is_on(hyperv.vendorid):
        return
    vendor = hyperv.vendorid.vendorid
    if not 0 < len(vendor) <= _LONGEST_VENDOR or "," in vendor:
        raise ConversionError(
            "spec.domain.features.hyperv.vendorid.vendorid",
            f"{vendor!r} is no vendor",
            f"use 1 to {_LONGEST_VENDOR} characters without a comma",
        )
    element.set("value", vendor)


def _add_tlb_flush(parent: Element, hyperv: Hyperv, context: DomainContext) -> None:
    element = _add_state(parent, "tlbflush", hyperv.tlbflush)
    if element is None or hyperv.tlbflush is None:
        return
    for name, feature in (("direct", hyperv.tlbflush.direct), ("extended", hyperv.tlbflush.extended)):
        if feature is not None:
            field = f"spec.domain.features.hyperv.tlbflush.{name}"
            require_libvirt(context, TLB_FLUSH_DETAILS, field, "remove it")
            _add_state(element, name, feature)
