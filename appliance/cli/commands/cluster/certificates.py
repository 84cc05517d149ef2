"""``appliance cluster certificates``: when they end, and their renewal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.help.complete import node_names
from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    changed_site_option,
    dry_run_option,
    output_option,
    site_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_nodes, confirmed
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, print_table
from appliance.cli.screen.terminal import print_line
from appliance.errors import NotHealthy
from appliance.model.components.control_plane.certificates import (
    KUBELET_CONF,
    KUBELET_DAYS,
    CertificateExpiry,
)
from appliance.model.components.control_plane.renewal import MOST_DAYS, WITHIN_DAYS
from appliance.model.plan.steps import KUBELET_CERTIFICATE, KUBERNETES_CERTIFICATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.cli.app import Application
    from appliance.model.components.base.component import Step
    from appliance.model.components.control_plane.kubeconfig_copies import KubeconfigCopy
    from appliance.model.components.control_plane.kubelets import KubeletRenewal
    from appliance.model.components.control_plane.renewal import NodeRenewal, RenewalPlan
    from appliance.model.site.settings import Site

RENEWED_BY = {
    "kubeadm": "appliance cluster certificates renew",
    "kubelet": "the kubelet, by itself",
    "authority": "by hand: a CA",
}


@click.group(cls=Nouns)
def certificates() -> None:
    """Show and renew the certificates of Kubernetes."""


@certificates.command()
@click.option(
    "--exit-code",
    is_flag=True,
    help=f"Exit with 5 if one ends within {WITHIN_DAYS} days, or a kubelet did not renew its own.",
)
@site_option
@output_option
@click.pass_obj
def show(app: Application, site: Path, output: str, *, exit_code: bool) -> None:
    """Show when each certificate of Kubernetes ends, the earliest first. Changes nothing.

    \b
    - every node is inspected once, over SSH; the Kubernetes API is not needed
    - kubeadm's certificates last a year; the kubelet renews its own; CAs last ten years

    Example: appliance cluster certificates show --site inventories/rack7
    """
    found, faults = app.connect(site).certificates()
    rows = sorted(
        ((one, node) for node, ones in found.items() for one in ones),
        key=lambda row: (row[0].left, row[1], row[0].path),
    )
    if output == "json":
        print_json(
            {
                "certificates": [_plain(node, one) for one, node in rows],
                "not_read": [
                    {"node": one.node, "reason": one.reason, "hint": one.hint} for one in faults
                ],
            }
        )
    else:
        print_table(
            ("node", "certificate", "ends", "days", "renewed by"),
            [
                (node, one.path, one.day, f"{one.left:.0f}", RENEWED_BY[one.keeper])
                for one, node in rows
            ],
            spare=("renewed by",),
        )
        for fault in faults:
            print_line(f"not read: {fault.node}: {fault.reason}")
            say_hint(fault.hint)
    late = [(one, node) for one, node in rows if _is_late(one)]
    if exit_code and late:
        first, node = late[0]
        raise NotHealthy(
            f"{node}: {first.path} {first.ends}",
            hint="renew it: appliance cluster certificates renew"
            if first.keeper != "authority" and first.path != KUBELET_CONF
            else "how each is renewed: appliance docs renew-kubernetes-certificates",
        )
    if exit_code and faults:
        raise NotHealthy(f"{faults[0].node}: not read: {faults[0].reason}", hint=faults[0].hint)


def _is_late(one: CertificateExpiry) -> bool:
    return one.left < (KUBELET_DAYS if one.keeper == "kubelet" else WITHIN_DAYS)


def _plain(node: str, one: CertificateExpiry) -> dict[str, Any]:
    return {
        "node": node,
        "path": one.path,
        "ends": one.day,
        "days_left": round(one.left, 1),
        "renewed_by": one.keeper,
    }


@certificates.command()
@click.option(
    "--within",
    type=click.IntRange(1, MOST_DAYS),
    default=WITHIN_DAYS,
    show_default=True,
    metavar="DAYS",
    help="Renew nodes on which a certificate of kubeadm ends within so many days.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NODE",
    shell_complete=node_names,
    help="Leave out a node that does not answer; repeatable.",
)
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def renew(
    app: Application,
    within: int,
    without: tuple[str, ...],
    site: Path,
    output: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Renew the certificates of kubeadm, and of kubelets that did not, one node at a time.

    \b
    - refused, before any change, unless every other control-plane node is Ready;
      where certificates have expired already, the renewal is the repair
    - etcd, the API server, the controller manager and the scheduler of a node restart, one after
      the other; pods keep running
    - a kubelet whose own certificate has ended, or ends within a week, restarts and gets another;
      its key never leaves the node
    - the files before are kept on the node; the kubeconfigs of the operators are renewed as well
    - a second run renews what is left

    Example: appliance cluster certificates renew --site inventories/rack7
    """
    connected = app.connect(site)
    known = [node.name for node in connected.site.cluster_members]
    for name in without:
        if name not in known:
            raise click.UsageError(
                f"--without: {name} is not a node of the cluster; its nodes: {', '.join(known)}"
            )
    with progress(plain=output == "json") as display:
        done = connected.renew_certificates(
            (within, without),
            display,
            lambda plan: _confirm(connected.site, plan, yes),
            dry_run=dry_run,
        )
    plan = done.plan
    if output == "json":
        print_json(
            {
                "renewals": _reasons(plan.renewals),
                "kubelets": _reasons(plan.kubelets),
                "kubeconfigs": [{"place": one.place, "tested": one.is_ours} for one in done.copies],
                "not_read": list(plan.unseen),
                "done": done.done,
            }
        )
        return
    if not plan.work:
        say(
            f"nothing to do: every certificate of kubeadm is valid for {within} days or more, and "
            f"every kubelet's for {KUBELET_DAYS}; to see them: appliance cluster certificates show"
        )
    elif dry_run:
        _show(plan, err=False)
    else:
        print_line(f"verified: certificates renewed on {', '.join(plan.nodes)}")
        _tell_copies(done.copies)
        say("to see when they end: appliance cluster certificates show")
    for name in plan.unseen:
        say(f"{name} did not answer: run the same command again when it does")


def _tell_copies(copies: Sequence[KubeconfigCopy]) -> None:
    for one in copies:
        state = "the API accepts it" if one.is_ours else "of somebody else: not changed, not tested"
        print_line(f"kubeconfig {one.place}: {state}")
    if copies:
        say(
            "copies elsewhere (other laptops, jumpboxes) are not known and still end on the old "
            "date; to make each again: appliance kubeconfig"
        )


def _reasons(found: Sequence[NodeRenewal | KubeletRenewal]) -> list[dict[str, Any]]:
    return [{"node": one.node, "reasons": list(one.reasons())} for one in found]


def _confirm(site: Site, plan: RenewalPlan, yes: bool) -> bool:
    return confirmed(yes, about_nodes(site, plan.nodes), lambda: _show(plan, err=True))


def _show(plan: RenewalPlan, *, err: bool) -> None:
    first = [one for one in plan.kubelets if one.comes_first]
    others = [one for one in plan.kubelets if not one.comes_first]
    work: tuple[tuple[Step, Sequence[NodeRenewal | KubeletRenewal]], ...] = (
        (KUBELET_CERTIFICATE, first),
        (KUBERNETES_CERTIFICATES, plan.renewals),
        (KUBELET_CERTIFICATE, others),
    )
    for step, found in work:
        for renewal in found:
            print_line(f"{renewal.node}: {step.name}: renewed", err=err)
            for reason in renewal.reasons():
                print_line(f"   because {reason}", err=err)
        if found:
            print_line(f"   disturbs: {step.disturbs}", err=err)
