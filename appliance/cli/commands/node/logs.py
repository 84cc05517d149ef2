"""``appliance node logs``: logs of one node, whatever works of the rest of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.scope import host_of
from appliance.cli.help.complete import node_names
from appliance.cli.options import site_option
from appliance.cli.screen.terminal import is_unread
from appliance.model.node import logs as model

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.cli.app import Application
    from appliance.model.site.settings import Node

_SOURCES = ("kubelet", "runtime", "kernel", "unit", "pod")


def _since(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    seconds = model.seconds_of(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is no duration: expected one as 90s, 15m, 1h or 2d")
    return seconds


def _unit(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not model.UNIT.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no name of a systemd unit, as chrony.service")
    return value


def _pod(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not all(value.partition("/")):
        raise click.BadParameter(f"{value!r} is no NAMESPACE/NAME, as kube-system/etcd-cp1")
    return value


@click.command(short_help="Show logs of a node: kubelet, runtime, kernel, pod.")
@click.argument("node", shell_complete=node_names)
@click.option("--kubelet", is_flag=True, help="Of the kubelet. This is the default.")
@click.option("--runtime", is_flag=True, help="Of Docker and containerd.")
@click.option("--kernel", is_flag=True, help="Of the kernel, since its boot.")
@click.option("--unit", callback=_unit, help="Of a systemd unit; 'appliance-*' for our own.")
@click.option(
    "--pod",
    metavar="NAMESPACE/NAME",
    callback=_pod,
    help="Of a pod's containers on this node. The beginning of a name is enough.",
)
@click.option("--container", help="With --pod: of this container only.")
@click.option(
    "--since", metavar="DURATION", callback=_since, help="Nothing older, for example 15m or 2h."
)
@click.option(
    "--lines",
    type=click.IntRange(1, model.MOST_LINES),
    default=200,
    show_default=True,
    help="The newest lines, at most.",
)
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C, an hour at most.")
@site_option
@click.pass_obj
def logs(
    app: Application,
    /,
    node: str,
    since: int | None,
    lines: int,
    site: Path,
    *,
    follow: bool,
    container: str | None,
    **sources: str | bool | None,
) -> None:
    """Show logs of NODE: the kubelet, the runtime, the kernel, a unit or a pod.

    \b
    - read over SSH: it works when the Kubernetes API does not
    - the newest 8 MB at most; control characters are shown, not sent to the terminal

    Changes nothing.

    \b
    Example: appliance node logs gpu1 --since 1h
             appliance node logs cp1 --pod kube-system/kube-apiserver
    """
    chosen = [name for name in _SOURCES if sources[name]]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other: use one")
    if container and "pod" not in chosen:
        raise click.UsageError("--container needs --pod NAMESPACE/NAME")
    connected = app.connect(site)
    host = host_of(connected.site, node)
    window = model.Window(lines, since, follow)
    if "pod" in chosen:
        _show_pod(connected.nodes, host, (str(sources["pod"]), container), window)
        return
    units = {
        "runtime": model.RUNTIME,
        "kernel": (),
        "unit": (str(sources["unit"]),),
    }.get(chosen[0] if chosen else "kubelet", model.KUBELET)
    _show(connected.nodes, host, model.journal_script(units, window), window)


def _show(nodes: SshNodes, node: Node, script: str, window: model.Window) -> None:
    from appliance.adapters.ssh.logs import follow_log, read_log

    if window.follow:
        follow_log(nodes, node, script, _show_text)
        return
    _print(*read_log(nodes, node, script), f"{node.name}: no entries in this log")


def _show_pod(
    nodes: SshNodes, node: Node, pod: tuple[str, str | None], window: model.Window
) -> None:
    from appliance.adapters.ssh import logs as adapter

    chosen = adapter.containers(nodes, node, *pod)
    if window.follow:
        if len({one.name for one in chosen}) > 1:
            names = ", ".join(sorted({one.name for one in chosen}))
            raise click.UsageError(f"--follow needs --container with one of {names}")
        adapter.follow_log(nodes, node, model.container_script(chosen[-1], window), _show_text)
        return
    for one, text, cut in adapter.container_logs(nodes, node, chosen, window):
        click.echo(f"==> {one.full_pod} {one.name}: {one.status}")
        _print(text, cut, f"{node.name}: {one.name} has written nothing")


def _show_text(text: str) -> None:
    click.echo(text, nl=False)
    if is_unread():
        raise click.exceptions.Exit(0)


def _print(text: str, cut: bool, otherwise: str) -> None:
    if not text:
        click.echo(f"note: {otherwise}", err=True)
        return
    click.echo(text, nl=not text.endswith("\n"))
    if cut:
        click.echo(
            "note: only the newest 8 MB: ask for fewer --lines, or a shorter --since", err=True
        )
