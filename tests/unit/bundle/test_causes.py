"""Sixteen faults of two causes are two paragraphs."""

from __future__ import annotations

from appliance.model.bundle.builds.causes import Failure, by_cause

RESOLVE = "cannot be reached: [Errno -3] Temporary failure in name resolution"
HOSTS = ("dl.k8s.io", "github.com", "storage.googleapis.com")
SUPPLY = "make one of these sources reachable"


def lost(name: str, host: str) -> Failure:
    why = f"https://{host}/v1/{name}: {host} {RESOLVE}"
    return Failure(f"binary {name}", "no source works", (why,), SUPPLY)


def test_faults_of_many_hosts_with_one_cause_are_one_paragraph() -> None:
    faults = [lost(f"tool{number}", HOSTS[number % 3]) for number in range(14)]
    ring = "the keyring /usr/share/keyrings/ubuntu.gpg is not on this machine"
    faults += [Failure("packages", ring), Failure("image controller", ring)]
    named = ", ".join(f"binary tool{number}" for number in range(12))
    assert by_cause(faults) == (
        (
            "14 artifacts: no source works",
            f"    the host {RESOLVE}",
            "    sources: dl.k8s.io, github.com, storage.googleapis.com",
            f"    artifacts: {named} and 2 more",
            f"    {SUPPLY}",
        ),
        (f"2 artifacts: {ring}", "    artifacts: packages, image controller"),
    )


def test_one_fault_keeps_its_sources_in_full() -> None:
    assert by_cause([lost("kubeadm", "dl.k8s.io")]) == (
        (
            "binary kubeadm: no source works",
            f"    https://dl.k8s.io/v1/kubeadm: dl.k8s.io {RESOLVE}",
            f"    {SUPPLY}",
        ),
    )
    whole = Failure("", "apt rejects the archive", ("E: expired",))
    assert by_cause([whole]) == (("apt rejects the archive", "    E: expired"),)


def test_other_causes_and_other_hints_are_other_paragraphs() -> None:
    other = Failure("binary c", "no source works", ("go c.test/c@v1: does not compile",), SUPPLY)
    found = by_cause([lost("a", "a.test"), other, lost("b", "b.test"), Failure("d", "else")])
    assert [paragraph[0] for paragraph in found] == [
        "2 artifacts: no source works", "binary c: no source works", "d: else",
    ]  # fmt: skip


def test_an_image_has_the_cause_of_its_part() -> None:
    part = lost("core", "a.test")
    image = Failure("image web", part.message, (f"core from {part.reasons[0]}",), SUPPLY)
    ((first, *_),) = by_cause([part, image])
    assert first == "2 artifacts: no source works"
