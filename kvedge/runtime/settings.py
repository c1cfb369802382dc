"""Settings of the long-running roles: a config file, then `KVEDGE_*`, then the command line, the last one wins.

Called by the subcommands. Reads the files that it is told to and an environment that it is handed. Unknown keys and
wrong values are refused, naming the key, where it stands and what may stand there instead. The descriptions here are
what `--help`, `kvedge show-config` and packaging/README.md say.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Struct

from kvedge.runtime.linux.cpu_lists import CpuListError, parse_cpu_list
from kvedge.runtime.nearest_names import CLOSE_ENOUGH, nearest_name
from kvedge.runtime.setting_rules.form_rules import THIN, names_in, wrong_console, wrong_places, wrong_roles
from kvedge.runtime.setting_rules.network_settings import wrong_networks

Emulation = Literal["auto", "kvm", "tcg"]
LauncherStart = Literal["apart", "warm"]

DEFAULT_CONFIG: Final = Path("/etc/kvedge/config.yaml")
DEFAULT_DATA_DIR: Final = Path("/var/lib/kvedge")
DEFAULT_SERVICE_CIDR: Final = "10.100.0.0/16"
# What `kvedge node` can run, in the order in which it starts them: handlers ask the api role for their certificates.
NODE_ROLES: Final = ("api", "controller", "handler")

# They name the settings file, and ask for a traceback of an unexpected error.
_NO_SETTINGS: Final = ("KVEDGE_CONFIG", "KVEDGE_TRACEBACK")


class SettingsError(Exception):
    """A setting cannot be used; the text names it, its source and the remedy."""


def _describe(description: str, default: str = "") -> msgspec.Meta:
    """What a setting is for; `default` says what an empty one becomes."""
    return msgspec.Meta(description=description, extra={"default": default})


class Settings(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, frozen=True):
    """What an operator may set; keys in the file are written with dashes."""

    data_dir: Annotated[str, _describe("Where state, images and Pods are kept")] = str(DEFAULT_DATA_DIR)
    bind: Annotated[str, _describe("The address to serve the API of one box on")] = "127.0.0.1"
    port: Annotated[int, _describe("The port to serve the API of one box on; 0 takes a free one")] = 6443
    pod_cidr: Annotated[str, _describe("Addresses for VMs of one box; IPV4,IPV6 for both")] = "10.99.0.0/24"
    service_cidr: Annotated[
        str, _describe("Addresses for Services of one box, as pod-cidr; no network of the host's")
    ] = DEFAULT_SERVICE_CIDR
    load_balancer_pool: Annotated[
        str,
        _describe(
            "Addresses of the LAN for Services of type LoadBalancer of one box, as networks or FIRST-LAST with commas",
            "none; they are at the host's own address",
        ),
    ] = ""
    insecure_registries: Annotated[
        str,
        _describe("Registries that may have no https, or be on this host itself, as HOST:PORT with commas", "none"),
    ] = ""
    volume_places: Annotated[
        str,
        _describe(
            "Further places for the volumes of one box, each with a StorageClass of its name: NAME=DIRECTORY with "
            "commas, of a mounted disk, or a directory on one; NAME=lvm-thin:GROUP/POOL is a thin pool of LVM",
            "none; the class kvedge keeps its volumes in the data directory",
        ),
    ] = ""
    volume_overcommit: Annotated[
        int,
        _describe("How much of what a place can hold is promised to claims, in percent: disks are sparse"),
    ] = 200
    dedicated_cpus: Annotated[
        str,
        _describe(
            "CPUs of one box for guests with dedicatedCpuPlacement, such as 2-5; other VMs are kept off them",
            "none",
        ),
    ] = ""
    launcher_start: Annotated[
        LauncherStart,
        _describe(
            "How one box starts launchers: apart, each as a program of its own; warm, from the third VM on as copies "
            "of one process, which are lighter and share one layout of memory"
        ),
    ] = "apart"
    emulation: Annotated[Emulation, _describe("What guests run on: auto tries whether KVM works; kvm; tcg")] = "auto"
    node_name: Annotated[
        str, _describe("The name of this node", "the host's name; on one box that of its first start")
    ] = ""
    console_address: Annotated[
        str,
        _describe(
            "Where one box, or a server of a cluster, serves the web console, as ADDRESS:PORT such as 0.0.0.0:8443; "
            "users sign in with a token",
            "nowhere; `kvedge web` serves it on a user's own computer",
        ),
    ] = ""
    console_certificate: Annotated[
        str,
        _describe(
            "A file with the certificate that the web console shows, and its chain, as PEM; somebody else keeps it "
            "fresh",
            "that of the box's API, or one of kvedge's own",
        ),
    ] = ""
    console_key: Annotated[str, _describe("The file with the key of console-certificate", "none")] = ""
    kubeconfig: Annotated[str, _describe("The cluster that roles work for when they run apart", "$KUBECONFIG")] = ""
    node_kubeconfig: Annotated[
        str, _describe("The kubelet's own kubeconfig, for a handler without one: it speaks as its node", "none")
    ] = ""
    write_kubeconfig: Annotated[
        str,
        _describe(
            "Where to write the kubeconfig for users",
            "/etc/kvedge/kubeconfig; in another data-dir, its kubeconfig",
        ),
    ] = ""
    kubelet_dir: Annotated[
        str,
        _describe(
            "The directory of a cluster's kubelet, which some distributions move; not for one box", "/var/lib/kubelet"
        ),
    ] = ""
    containerd_socket: Annotated[
        str, _describe("The socket of a node's containerd, for `kvedge install`", "the distribution's or the kubelet's")
    ] = ""
    images_dir: Annotated[
        str, _describe("Where a node loads images from when it starts, for `kvedge install`", "the distribution's")
    ] = ""
    manifests_dir: Annotated[
        str, _describe("Where a server applies manifests from, for `kvedge install`", "the distribution's")
    ] = ""
    api_address: Annotated[str, _describe("Where the api role listens, as ADDRESS:PORT; 0 takes a free port")] = (
        "127.0.0.1:0"
    )
    relay_address: Annotated[
        str, _describe("Where the handler's relay listens, as ADDRESS:PORT; 0 takes a free port")
    ] = "127.0.0.1:0"
    node_roles: Annotated[str, _describe("What `kvedge node` runs, of controller, api and handler, with commas")] = (
        "controller,api,handler"
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], _describe("What is logged, from which level on")
    ] = "info"

    @property
    def emulation_is_set(self) -> bool:
        """Whether the operator has decided what guests run on, over the KubeVirt object's useEmulation."""
        return self.emulation != "auto"

    @property
    def data_path(self) -> Path:
        """The data directory."""
        return Path(self.data_dir)

    @property
    def state_path(self) -> Path:
        """Where the store and the certificates are."""
        return self.data_path / "state"

    @property
    def box_kubelet_path(self) -> Path:
        """Where the agent of one box keeps its Pods; never a cluster's kubelet's, whose Pods are not ours to remove."""
        return self.data_path / "kubelet"

    @property
    def effective_node_name(self) -> str:
        """The node's name: lower case, as Kubernetes wants it."""
        return (self.node_name or socket.gethostname()).lower()

    @property
    def roles_of_node(self) -> tuple[str, ...]:
        """What `kvedge node` runs, in the order in which it starts."""
        named = names_in(self.node_roles)
        return tuple(role for role in NODE_ROLES if role in named)

    @property
    def registries_without_tls(self) -> frozenset[str]:
        """Registries that may be spoken to without https, and from which Pods may pull also when they are here."""
        return frozenset(names_in(self.insecure_registries))

    @property
    def cpus_for_guests_alone(self) -> frozenset[int]:
        """CPUs of one box that only guests with CPUs for themselves run on."""
        return parse_cpu_list(self.dedicated_cpus)

    @property
    def places_of_volumes(self) -> dict[str, Path]:
        """Further places for volumes that are directories, by the name of their StorageClass."""
        return {name: Path(place) for name, place in self._places.items() if not place.startswith(THIN)}

    @property
    def thin_pools_of_volumes(self) -> dict[str, tuple[str, str]]:
        """Further places for volumes that are thin pools: volume group and pool by the name of the StorageClass."""
        thin = {name: place.removeprefix(THIN) for name, place in self._places.items() if place.startswith(THIN)}
        return {name: (group, pool) for name, (group, _, pool) in ((k, v.partition("/")) for k, v in thin.items())}

    @property
    def _places(self) -> dict[str, str]:
        return {name: place for name, _, place in (each.partition("=") for each in names_in(self.volume_places))}

    @property
    def user_kubeconfig(self) -> Path:
        """Where the kubeconfig for users is."""
        if self.write_kubeconfig:
            return Path(self.write_kubeconfig)
        return Path("/etc/kvedge/kubeconfig") if self.data_path == DEFAULT_DATA_DIR else self.data_path / "kubeconfig"


class SettingFacts(Struct, frozen=True):
    """What there is to know of a setting without any file: its key, purpose, and default in words."""

    key: str
    description: str
    default: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"KVEDGE_{self.key.upper().replace('-', '_')}"


class Layer(Struct, frozen=True):
    """One source of settings: where it is, and its values by key."""

    origin: str
    values: Mapping[str, Any]


class LoadedSettings(Struct, frozen=True):
    """The settings of one run, and for each key where its value comes from."""

    settings: Settings
    origins: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """(key, value, origin) for each setting, in the order of the table."""
        for field in msgspec.structs.fields(Settings):
            yield field.encode_name, str(getattr(self.settings, field.name)), self.origins[field.encode_name]


@cache
def setting_facts() -> Sequence[SettingFacts]:
    """Every setting, in the order of the table."""
    found = []
    for field in msgspec.structs.fields(Settings):
        described = msgspec.inspect.type_info(field.type)
        assert isinstance(described, msgspec.inspect.Metadata)
        schema, extra = described.extra_json_schema or {}, described.extra or {}
        found.append(
            SettingFacts(field.encode_name, str(schema["description"]), str(extra["default"] or field.default))
        )
    return tuple(found)


def load_settings(
    config: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any],
    default_config: Path = DEFAULT_CONFIG,
) -> Settings:
    """The settings of one run, see :func:`trace_settings`."""
    return trace_settings(config, environment, overrides, default_config).settings


def trace_settings(
    config: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any],
    default_config: Path = DEFAULT_CONFIG,
    leave_out: Path | None = None,
) -> LoadedSettings:
    """The settings of one run and where each comes from.

    Args:
        config: the file that the user named, which must exist; None for the default one. The files in the directory
            of its name with `.d` count too, in the order of their names.
        environment: variables, of which those that begin with KVEDGE_ count.
        overrides: what the command line says, by attribute name; None values do not count.
        leave_out: a file that does not count, such as the one that an installation has written.

    Raises:
        SettingsError: for an unknown key, a wrong value or an unreadable file.
    """
    given = {name.replace("_", "-"): value for name, value in overrides.items() if value is not None}
    files = [path for path in _files(config, default_config) if path != leave_out]
    layers = [*(Layer(str(path), _read_file(path)) for path in files)]
    layers += [*_environment_layers(environment), Layer("command line", given)]
    values: dict[str, Any] = {}
    origins = {field.encode_name: "default" for field in msgspec.structs.fields(Settings)}
    for layer in layers:
        for key, value in layer.values.items():
            values[key] = _convert(key, value, layer.origin)
            origins[key] = layer.origin
    settings = msgspec.convert(values, Settings)
    for wrong in _wrong_values(settings):
        raise SettingsError(f"{_place(origins[wrong.key])}{wrong.key}: {wrong.reason}")
    return LoadedSettings(settings, origins)


def _convert(key: str, value: Any, origin: str) -> Any:
    field = next(field for field in msgspec.structs.fields(Settings) if field.encode_name == key)
    try:
        # Text from the environment becomes the number or the word that the type wants.
        return msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        [about] = [facts.description for facts in setting_facts() if facts.key == key]
        raise SettingsError(f"{_place(origin)}{key}: {value!r} cannot be used: {error} ({about})") from error


def _place(origin: str) -> str:
    # A user who typed the flag just now needs no directions to it.
    return "" if origin == "command line" else f"{origin}: "


def _files(config: Path | None, default_config: Path) -> list[Path]:
    first = config or default_config
    files = [first] if config is not None or first.exists() else []
    return files + sorted(first.parent.glob(f"{first.name}.d/*.yaml"))


def _read_file(path: Path) -> dict[str, Any]:
    import yaml  # costs 15 ms, and most runs have no file

    try:
        document = yaml.safe_load(path.read_text()) or {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{path}: must hold settings as `key: value` lines")
    for key in document:
        _check_key(str(key), str(path))
    return document


def _environment_layers(environment: Mapping[str, str]) -> Iterator[Layer]:
    for name, value in environment.items():
        # KVEDGE_TEST_* belongs to the tests' own switches.
        if not name.startswith("KVEDGE_") or name in _NO_SETTINGS or name.startswith("KVEDGE_TEST_"):
            continue
        key = name.removeprefix("KVEDGE_").lower().replace("_", "-")
        origin = f"environment variable {name}"
        _check_key(key, origin)
        yield Layer(origin, {key: value})


def _check_key(key: str, source: str) -> None:
    known = list(Settings.__struct_encode_fields__)
    if key in known:
        return
    close = nearest_name(key, known, CLOSE_ENOUGH)
    hint = f"did you mean {close}?" if close else f"known are {', '.join(known)}"
    raise SettingsError(f"{source}: unknown setting {key}: {hint}")


class _Wrong(Struct, frozen=True):
    key: str
    reason: str


def _wrong_values(settings: Settings) -> Iterator[_Wrong]:
    if not 0 <= settings.port <= 65535:
        yield _Wrong("port", f"{settings.port} is not between 0 and 65535")
    if not Path(settings.data_dir).is_absolute():
        yield _Wrong("data-dir", f"{settings.data_dir} must be an absolute path")
    try:
        ipaddress.ip_address(settings.bind)
    except ValueError:
        yield _Wrong("bind", f"{settings.bind} is not an IP address, such as 127.0.0.1 or 0.0.0.0")
    console = wrong_console(settings.console_address, settings.console_certificate, settings.console_key)
    yield from (_Wrong(key, reason) for key, reason in console)
    yield from (_Wrong("volume-places", reason) for reason in wrong_places(settings.volume_places))
    if settings.volume_overcommit < 1:
        yield _Wrong("volume-overcommit", f"{settings.volume_overcommit} must be a percentage of 1 or more")
    try:
        parse_cpu_list(settings.dedicated_cpus)
    except CpuListError as error:
        yield _Wrong("dedicated-cpus", str(error))
    if wrong := wrong_roles(settings.node_roles, NODE_ROLES):
        yield _Wrong("node-roles", wrong)
    networks = wrong_networks(settings.pod_cidr, settings.service_cidr, settings.load_balancer_pool)
    yield from (_Wrong(key, reason) for key, reason in networks)
