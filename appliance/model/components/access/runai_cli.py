"""Run:ai's CLI on jumpboxes: what is desired, what was found, what is done or refused.

What must not be here: reading a node, or writing to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import Refused
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import read_typed
from appliance.model.site.groups import JUMPBOXES
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import connection_vars, ssh_command
from appliance.model.site.vault_ref import CA_CERTIFICATE
from appliance.model.state.plan import Notice, Reason, Refusal

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired

# The length of a sentence that a node reports.
_LETTERS: Final = 500
PROGRAM: Final = "/usr/local/bin/runai"
COMPLETION: Final = "/etc/bash_completion.d/runai"
# Where to get it, by the vendor's documents.
SOURCE: Final = (
    "download it from the backend's web pages: Researcher Command Line Interface; or kubectl "
    "port-forward -n runai svc/researcher-service 4180 and http://localhost:4180/cli/linux; "
    "then pass it with --cli FILE"
)


@dataclass(frozen=True)
class Program:
    """The CLI on the control host.

    Attributes:
        path: of the file.
        sha256: its digest.
        replaces: whether it replaces an installed one; one from the vendor bundle does not.
    """

    path: str
    sha256: str
    replaces: bool = True


@dataclass(frozen=True)
class Researcher:
    """A user of the jumpboxes.

    Attributes:
        name: on the jumpbox.
        kubeconfig: the whole file.
        expected: the keys that a current file must have.
    """

    name: str
    kubeconfig: str
    expected: Mapping[str, str]


@dataclass(frozen=True)
class CliOptions:
    """The desired state."""

    nodes: tuple[Node, ...]
    researchers: tuple[Researcher, ...]
    program: Program | None = None
    kubectl_sha256: str = ""
    replace: bool = False


@dataclass(frozen=True)
class Home:
    """The state of a user's kubeconfig (a state of ``appliance_jumpbox``), and a sentence."""

    state: str
    text: str = ""


@dataclass(frozen=True)
class Jumpbox:
    """The state of one jumpbox; it contains nothing from inside a kubeconfig."""

    program_sha256: str | None = None
    program_fault: str = ""
    completion_current: bool = False
    kubectl: str | None = None
    resolves: bool = True
    users: Mapping[str, Home] = field(default_factory=dict)


@dataclass(frozen=True)
class _Look:
    """The complete JSON document that a jumpbox prints."""

    program_sha256: str | None
    program_fault: str
    completion_current: bool
    kubectl: str | None
    resolves: bool
    users: dict[str, Home]


def read_look(said: str, names: Collection[str]) -> Jumpbox:
    """Read the document that a jumpbox printed.

    Args:
        said: its output, one JSON document.
        names: the requested researchers.

    Raises:
        Unreadable: it is another document, or lacks a researcher.
    """
    found = read_typed(said, _Look)
    if missing := sorted(set(names) - set(found.users)):
        raise Unreadable(f"the user {missing[0]} is missing from it")
    users = {
        name: Home(found.users[name].state[:_LETTERS], found.users[name].text[:_LETTERS])
        for name in names
    }
    return Jumpbox(
        found.program_sha256,
        found.program_fault[:_LETTERS],
        found.completion_current,
        found.kubectl,
        found.resolves,
        users,
    )


@dataclass(frozen=True)
class CliPlan:
    """What will be done, or why it is refused."""

    changes: tuple[Reason, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes on which something changes."""
        return tuple(dict.fromkeys(change.node for change in self.changes))


def choose_nodes(site: Site, names: Sequence[str]) -> tuple[Node, ...]:
    """Return the jumpboxes of the site, or the named nodes.

    Raises:
        Refused: there is none, or a name is not a node.
    """
    if not names:
        found = site.in_group(JUMPBOXES)
        if not found:
            raise Refused(
                f"{site.name}: the inventory's group {JUMPBOXES} is empty, and no node was given",
                hint=f"add a host to {JUMPBOXES} in hosts.yml, or choose a node: --nodes NAME",
            )
        return found
    known = {node.name: node for node in site.nodes}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Refused(
            f"{unknown[0]} is not a node of {site.name}",
            hint=f"the inventory has: {', '.join(known)}",
            details=[f"{name} is not a node of {site.name}" for name in unknown[1:]],
        )
    return tuple(known[name] for name in names)


def kubectl_digest(desired: Desired) -> str:
    """Return the sha256 of the bundle's kubectl; empty when no bundle is known."""
    held = desired.manifest.artifacts if desired.manifest else ()
    wanted = ("binary", "kubectl")
    return next((one.sha256 for one in held if (one.kind, one.name) == wanted), "")


def expected_keys(kubeconfig: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys that a file for this site must have, whatever a login added to it."""
    (cluster,) = kubeconfig["clusters"]
    (user,) = kubeconfig["users"]
    return {**cluster["cluster"], **user["user"]["auth-provider"]["config"]}


def plan_cli(options: CliOptions, site: Site, seen: Mapping[str, Jumpbox]) -> CliPlan:
    """Compare the desired with the observed state."""
    changes: list[Reason] = []
    refusals: list[Refusal] = []
    notices: list[Notice] = []
    endpoint = site.settings.control_plane_endpoint.name
    for node in options.nodes:
        found = seen[node.name]
        refusals += _refused(options, site, node, found)
        changes += (Reason(node.name, text) for text in _changed(options, found))
        if not found.resolves:
            text = (
                f"it cannot resolve {endpoint}, which every kubeconfig uses: check its DNS servers"
            )
            notices.append(Notice(node.name, text))
    return CliPlan(tuple(changes), tuple(refusals), tuple(notices))


def brings(options: CliOptions, found: Jumpbox) -> Program | None:
    """Return the program to install on this node, or None when it keeps its own."""
    program = options.program
    if program is None or program.sha256 == found.program_sha256:
        return None
    return program if program.replaces or found.program_sha256 is None else None


def _changed(options: CliOptions, found: Jumpbox) -> Iterator[str]:
    program = brings(options, found)
    if program is not None:
        yield f"{PROGRAM} is {'replaced' if found.program_sha256 else 'installed'}"
    if program is not None or not found.completion_current:
        yield f"{COMPLETION} is written by the program"
    if found.kubectl is None:
        yield "kubectl is installed from the site's bundle"
    for person in options.researchers:
        home = found.users[person.name]
        if home.state == "foreign":
            yield f"{home.text}: it is moved aside, and a researcher's kubeconfig replaces it"
        elif home.state == "loose":
            yield f"{home.text}: its mode becomes 0600"
        elif home.state != "current":
            yield f"{home.text}: a researcher's kubeconfig is written"


def _refused(options: CliOptions, site: Site, node: Node, found: Jumpbox) -> Iterator[Refusal]:
    login = ssh_command(site, node)
    program = brings(options, found)
    if program is None and found.program_sha256 is None:
        yield Refusal(
            node.name, "Run:ai CLI", f"no {PROGRAM} and none in the vendor bundle",
            "the file runai of your backend's version for Linux", SOURCE,
        )  # fmt: skip
    elif program is None and found.program_fault:
        yield Refusal(
            node.name, "Run:ai CLI", found.program_fault, "a program that runs here", SOURCE
        )
    if found.kubectl is None and not options.kubectl_sha256:
        yield Refusal(
            node.name, "kubectl", "none, and no bundle on the services host",
            "kubectl, or a bundle that contains it", "appliance install --bundle DIR",
        )  # fmt: skip
    for person in options.researchers:
        home = found.users[person.name]
        if home.state == "no user":
            yield Refusal(
                node.name, f"user {person.name}", "no such user", "the user to exist",
                f"{login} sudo adduser {person.name}",
            )  # fmt: skip
        elif home.state == "no home":
            yield Refusal(
                node.name, f"user {person.name}", home.text, "a home directory",
                f"{login} sudo mkhomedir_helper {person.name}",
            )  # fmt: skip
        elif home.state == "foreign" and not options.replace:
            yield Refusal(
                node.name, f"kubeconfig of {person.name}", home.text,
                "none, or one that this tool wrote",
                "move it away, or pass --replace, which keeps it beside the new one",
            )  # fmt: skip


def play_inventory(
    desired: Desired, options: CliOptions, seen: Mapping[str, Jumpbox]
) -> dict[str, Any]:
    """Return the run's inventory: connection, and the variables of role ``runai_cli`` only."""
    site = desired.site
    common = {
        **connection_vars(site),
        "runai_cli_artifacts_url": f"https://{site.services_node.ip}:{site.artifacts_port}",
        "runai_cli_ca_certificate": CA_CERTIFICATE,
        "runai_cli_replace": options.replace,
        "runai_cli_users": [
            {"name": one.name, "content": one.kubeconfig, "expected": dict(one.expected)}
            for one in options.researchers
        ],
    }
    hosts = {}
    for node in options.nodes:
        program = brings(options, seen[node.name])
        hosts[node.name] = {
            "ansible_host": node.ip,
            "runai_cli_program_file": program.path if program else "",
            "runai_cli_kubectl_sha256": "" if seen[node.name].kubectl else options.kubectl_sha256,
        }
    return {"all": {"vars": common, "hosts": hosts}}
