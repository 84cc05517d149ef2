"""Can the organisation's own registry be used? Judged before the first change."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.components.base.subject import Subject
from appliance.model.components.registry.unmet import LOGIN_WANTED
from appliance.model.state.findings import Finding


def external_registry(subject: Subject) -> Iterator[Finding]:
    """The organisation's registry answers every node, under a certificate of its CA."""
    settings = subject.site.settings
    external, seen = settings.external_registry, subject.facts.at("registry.serving")
    if external is None or not isinstance(seen, dict):
        return
    code, name = seen.get("code"), settings.registry
    if code is None:
        yield subject.error(
            "external_registry",
            f"https://{name} does not answer: {seen.get('error') or 'no reason given'}",
            "an answer over TLS, with a certificate that the CA in external_registry.ca signed",
            "correct registry or external_registry in site.yml; see whether it answers: "
            + subject.ssh(f"curl -k https://{name}/v2/"),
        )
    elif code == LOGIN_WANTED and external.pusher is None:
        yield subject.error(
            "external_registry",
            f"https://{name}/v2/ answering {code}: it requires a login",
            "external_registry.user in site.yml, and its password in the vault",
            "add external_registry.user to site.yml, then: appliance site check",
        )
    elif code != LOGIN_WANTED and not seen.get("ok"):
        yield subject.error(
            "external_registry",
            f"https://{name}/v2/ answering {code}",
            f"200, or {LOGIN_WANTED} for a login: a registry with the API v2",
            "correct registry in site.yml to the NAME:PORT of the registry",
        )


CHECKS = (external_registry,)
