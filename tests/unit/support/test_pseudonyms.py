"""Names and addresses of a customer are replaced, each by the same word, and networks stay so."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from ipaddress import ip_address, ip_network

import pytest

from appliance.model.state.facts.reader import check_facts
from appliance.model.support.pseudonyms import Pseudonyms, kept_ranges, names_of
from tests import samples

KEY = b"k" * 32
ORDINARY = (
    "127.0.0.1 255.255.255.0 10.244.1.7 10.96.0.1",
    "v1.23.5 at 12:34:56, ::1, ff:ff:ff:ff:ff:ff",
)
SITE = samples.site(3, 2, ntp_servers=["time.customer.test"])
DOCUMENTS = {n.name: samples.converged(n, samples.desired(SITE)) for n in SITE.nodes}


def pseudonyms(key: bytes = KEY) -> Pseudonyms:
    return Pseudonyms(key, names_of(SITE, DOCUMENTS.values(), ["ada"], key), kept_ranges(SITE))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("etcd-cp1 on cp1.rack.test", "etcd-node-01 on node-01.zone1.example"),
        ("registry.rack.test:5000/busybox", "registry.zone1.example:5000/busybox"),
        ("w1 and w10 and W1", "node-04 and w10 and node-04"),
        ("?f=metadata.name%3Dcp1&l=5 %3dw1", "?f=metadata.name%3Dnode-01&l=5 %3dnode-04"),
        ("by ada at time.customer.test", "by name-01 at host1.example"),
        *((text, text) for text in ORDINARY),
    ],
)  # fmt: skip
def test_names_are_replaced_and_ordinary_words_stay(text: str, told: str) -> None:
    assert pseudonyms().replace(text) == told


def test_addresses_of_one_network_are_of_one_network_afterwards() -> None:
    names = pseudonyms()
    lan, one, two, other = (
        names.replace(text)
        for text in ("198.18.7.0/24", "198.18.7.11", "198.18.7.12", "198.18.8.1")
    )
    assert ip_address(one) in ip_network(lan)
    assert ip_address(two) in ip_network(lan)
    assert ip_address(other) not in ip_network(lan)
    assert one != "198.18.7.11"
    assert not any(ip_address(one) in kept for kept in kept_ranges(SITE))


def test_a_mac_and_an_address_of_six_keep_their_form() -> None:
    told = pseudonyms().replace("fe80::42:acff:fe11:2 3c:ec:ef:00:11:22")
    six, mac = told.split()
    assert ip_address(six).version == 6
    assert "3c:ec:ef" not in mac
    assert len(mac) == 17


@pytest.mark.parametrize(
    "form",
    [
        *("3c-ec-ef-00-11-22", "3cec.ef00.1122", "enx3cecef001122", "3C:EC:EF:00:11:22"),
        "80:00:02:08:fe:80:00:00:00:00:00:00:3c:ec:ef:00:11:22:33:44",
    ],
)
def test_a_mac_is_replaced_however_it_is_written(form: str) -> None:
    told = pseudonyms().replace(f"link {form} is up")
    assert told.startswith("link ")
    assert told.endswith(" is up")
    plain = told.lower().translate(str.maketrans("", "", ":-."))
    assert "3cecef" not in plain
    assert "001122" not in plain


def test_a_mac_is_the_same_one_in_each_form() -> None:
    names = pseudonyms()
    forms = names.replace("3c:ec:ef:00:11:22 3c-ec-ef-00-11-22 3cec.ef00.1122 enx3cecef001122")
    one, two, three, four = forms.split()
    plain = one.replace(":", "")
    assert plain == two.replace("-", "") == three.replace(".", "") == four.removeprefix("enx")


@pytest.mark.parametrize(
    "form",
    [
        *("::ffff:198.18.7.11", "198-18-7-11", "ip-198-18-7-11.ns.pod", "198.018.007.011"),
        *("[::ffff:198.18.7.11]:6443", "11.7.18.198.in-addr.arpa", "v198.18.7.11", "198_18_7_11"),
    ],
)
def test_an_address_is_replaced_however_it_is_written(form: str) -> None:
    names = pseudonyms()
    other = names.replace("198.18.7.11")
    told = names.replace(form)
    assert "198" not in told
    dashed = {other, other.replace(".", "-"), other.replace(".", "_")}
    dashed.add(".".join(reversed(other.split("."))))
    assert any(one in told for one in dashed), told


@pytest.mark.parametrize(
    "text",
    [
        *("ldap.customer.test", "DC=rack,DC=test", "dc=customer,dc=test", "(4)rack(4)test"),
        *("https://runai.other.test/auth", "sso.elsewhere.test", "mirror.third.test:5000"),
    ],
)
def test_zones_around_the_names_of_the_site_are_replaced(text: str) -> None:
    site = samples.site(
        ntp_servers=["time.customer.test"],
        registry="mirror.third.test:5000",
        runai={"domain": "runai.other.test"},
        ssh={"jump_host": "ada@jump.elsewhere.test"},
    )
    told = Pseudonyms(KEY, names_of(site, [], [], KEY), kept_ranges(site)).replace(text).lower()
    for word in ("customer", "rack", "other", "elsewhere", "third"):
        assert word not in told


@pytest.mark.parametrize("text", ["/home/karl/x", "/Users/karl", "cd /home/karl"])
def test_the_folder_of_a_person_is_replaced(text: str) -> None:
    told = pseudonyms().replace(text)
    assert "karl" not in told
    assert told == pseudonyms().replace(text)
    assert pseudonyms().replace("/home/ubuntu/x") == "/home/ubuntu/x"


def test_facts_with_pseudonyms_are_facts() -> None:
    names = pseudonyms()
    for name, document in DOCUMENTS.items():
        text = names.replace(json.dumps(document))
        check_facts(json.loads(text))
        assert name not in text
        assert "198.18.7." not in text
        assert str(document["dmi"]["serial"]) not in text


def test_the_same_key_gives_the_same_words_and_another_one_does_not() -> None:
    text = "198.18.7.11 of 3c:ec:ef:00:11:22"
    assert pseudonyms().replace(text) == pseudonyms().replace(text)
    assert pseudonyms(b"j" * 32).replace(text) != pseudonyms().replace(text)


def test_what_stands_for_what_is_kept_for_the_site() -> None:
    names = pseudonyms()
    names.replace("cp1 has 198.18.7.11")
    assert names.used["cp1"] == "node-01"
    assert set(names.used) == {"cp1", "198.18.7.11"}


def in_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("text", "inner", "told"),
    [
        (in_base64("cp1.rack.test"), 1, "node-01.zone1.example"),
        (in_base64('{"server": "registry.rack.test:5000"}'), 1, "registry.zone1.example:5000"),
        (in_base64(in_base64("by ada at time.customer.test")), 2, "by name-01 at host1.example"),
        (in_base64("cp1.rack.test").rstrip("="), 1, "node-01.zone1.example"),
        (in_base64("line\n\tcp1.rack.test\n"), 1, "node-01.zone1.example"),
    ],
)
def test_a_name_in_base64_is_replaced_and_coded_again(text: str, inner: int, told: str) -> None:
    found = pseudonyms().replace(f'"data": "{text}" end')
    assert text not in found
    assert found.startswith('"data": "')
    assert found.endswith('" end')
    word = found.split('"')[3]
    for _ in range(inner):
        word = b64decode(word + "=" * (-len(word) % 4)).decode()
    assert told in word
    assert "rack.test" not in word


@pytest.mark.parametrize(
    "text",
    [
        "/etc/kubernetes/Manifests/KubeApiserver",
        in_base64("nothing of a customer"),
        b64encode(bytes(range(48))).decode(),
        "NVIDIA-A100-SXM4-80GB Standard_Name",
    ],
)
def test_other_words_that_look_like_base64_stay(text: str) -> None:
    assert pseudonyms().replace(text) == text


@pytest.mark.parametrize("written", ["time.b\xfccher.test", "time.xn--bcher-kva.test"])
def test_a_name_is_replaced_in_punycode_and_out_of_it(written: str) -> None:
    site = samples.site(3, 2, ntp_servers=["time.xn--bcher-kva.test"])
    found = Pseudonyms(KEY, names_of(site, (), ["j\xfcrgen"], KEY), kept_ranges(site))
    assert found.replace(f"from {written} by j\xfcrgen or xn--jrgen-kva") == (
        "from host1.example by name-01 or name-01"
    )
