"""A client of one API server, made of an admin.conf whose key never lies on this machine's disk.

The client reads its certificates from paths, each time that it connects. The kubernetes library
would write them to temporary files, which stay when a signal ends the command: here they are
files in memory, which end with the process. Of an admin.conf only the certificates are taken: a
program or a proxy that it names is for ``kubectl`` on the node, and is not run here.

What must not be here: which server is asked (:mod:`appliance.adapters.kubernetes.api`).
"""

from __future__ import annotations

import json
import logging
import os
import ssl
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from appliance.adapters.site.yaml_lines import NO_VALUE, Limits
from appliance.model.upgrade.evidence import Silence

_LOGGER = logging.getLogger(__name__)
# Of TLS, and of each answer. That the server takes the connection at all the tunnel has seen.
TIMEOUT = (10, 10)
# kubeadm writes some 6 KiB and 25 values.
MOST_BYTES = 128 * 1024
OPEN_FILES = Path("/proc/self/fd")


class NotReadable(Exception):
    """The API of one node could not be read; the text says why."""


# Timeout, conflict, too early, too many requests.
MAY_PASS: Final = frozenset({408, 409, 425, 429})
STARTING: Final = "not yet ready to handle request"


class ApiRefused(NotReadable):
    """The API answered, and did not do what it was asked.

    Attributes:
        status: of the answer, e.g. 404.
        reason: the status in words.
        body: the answer's text.
    """

    def __init__(self, status: int, reason: str, body: object = "") -> None:
        super().__init__(f"the API answered {status} {reason}")
        self.status = status
        self.reason = reason
        self.body = str(body or "")

    @property
    def words(self) -> str:
        """Status and reason."""
        return f"{self.status} {self.reason}"

    @property
    def is_final(self) -> bool:
        """Whether the same request gets the same answer.

        A server that starts answers 403 while its admission plugins wait for their caches
        (k8s.io/apiserver, pkg/admission/handler.go and its callers).
        """
        is_ours = 400 <= self.status < 500 and self.status not in MAY_PASS
        return is_ours and STARTING not in self.body


class ApiSilent(NotReadable):
    """The API did not answer, or its connection broke.

    Attributes:
        reason: what the library calls it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the API does not answer: {reason}")
        self.reason = reason

    @property
    def words(self) -> str:
        """The reason."""
        return self.reason


class NotReady(NotReadable):
    """An API server answers, and says that it is not ready."""


@dataclass(frozen=True)
class Credentials:
    """What an admin.conf says of the cluster and of its user, as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)


class _Texts(Limits, yaml.BaseLoader):
    """Every scalar is text, and no tag, merge or type of YAML means anything."""

    most_nodes = 1000


def credentials_of(kubeconfig: str) -> Credentials:
    """Those of the current context.

    Raises:
        NotReadable: the text is cut, empty, far too large, or no kubeconfig with an embedded key
            that opens without a passphrase.
    """
    if len(kubeconfig) > MOST_BYTES:
        raise NotReadable(f"its admin.conf is larger than {MOST_BYTES // 1024} KiB")
    try:
        config = yaml.load(kubeconfig, Loader=_Texts)  # noqa: S506  (makes texts alone)
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
        texts = (
            b64decode(cluster["certificate-authority-data"]),
            b64decode(user["client-certificate-data"]),
            b64decode(user["client-key-data"]),
        )
    except NO_VALUE:
        # Not chained: YAML's errors quote the text, and with it the key.
        raise _not_whole() from None
    # OpenSSL would ask the operator's terminal for the passphrase of any of the three.
    if any(b"ENCRYPTED" in text for text in texts):
        raise NotReadable("its admin.conf has a key with a passphrase")
    return Credentials(*texts)


@contextmanager
def api_client(credentials: Credentials, port: int) -> Iterator[Any]:
    """A client of the API server to which a port of this machine's loopback leads.

    Raises:
        NotReadable: the certificates or the key are no such thing, or no pair.
    """
    from kubernetes.client import ApiClient, Configuration

    texts = (credentials.authority, credentials.certificate, credentials.key)
    with _files(texts) as (authority, certificate, key):
        try:
            context = ssl.create_default_context(cafile=authority)
            context.load_cert_chain(certificate, key, password=lambda: b"")
        except (OSError, ValueError) as error:
            raise _not_whole() from error
        configuration = Configuration()
        configuration.host = f"https://127.0.0.1:{port}"
        configuration.tls_server_name = "kubernetes"
        configuration.ssl_ca_cert = authority
        configuration.cert_file = certificate
        configuration.key_file = key
        configuration.retries = False
        # After the host, with which the environment's proxy is looked up.
        configuration.proxy = None
        client = ApiClient(configuration)
        try:
            yield client
        finally:
            client.close()


@contextmanager
def api_errors() -> Iterator[None]:
    """What the library raises within, as errors of ours: the one place that tells them apart.

    Raises:
        ApiRefused: the API answered with an error.
        ApiSilent: it did not answer, or not to the end.
    """
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        # The library calls a broken TLS connection an answer with status 0.
        if not error.status:
            raise ApiSilent(_first_line(error)) from error
        raise ApiRefused(error.status, str(error.reason or ""), error.body) from error
    except AttributeError as error:
        # Where TLS broke it fails itself: it decodes the body of its exception, which has none.
        broken = error.__context__
        if isinstance(broken, ApiException) and not broken.status:
            raise ApiSilent(_first_line(broken)) from error
        raise
    except (HTTPError, OSError) as error:
        raise ApiSilent(type(error).__name__) from error


def _first_line(error: Any) -> str:
    """The reason of the library's exception, which may have several lines."""
    return str(error.reason or "").partition("\n")[0] or type(error).__name__


def call(function: Callable[..., Any], *arguments: object, **more: object) -> Any:
    """Make one request.

    Raises:
        ApiRefused: the API answered with an error.
        ApiSilent: it did not answer in time.
    """
    _LOGGER.debug("API: %s", getattr(function, "__name__", function))
    with api_errors():
        return function(*arguments, _request_timeout=TIMEOUT, **more)


def get_untyped(
    client: Any,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    _request_timeout: tuple[int, int],
) -> Any:
    """The answer of a path that the typed API does not know, whatever its status; for ``call``."""
    from urllib3 import Timeout

    connect, read = _request_timeout
    return client.rest_client.pool_manager.request(
        "GET",
        f"{client.configuration.host}{path}",
        headers=headers,
        timeout=Timeout(connect=connect, read=read),
        retries=False,
    )


def object_of(answer: Any) -> dict[str, Any] | Silence:
    """The object in an answer of :func:`get_untyped`, or why there is none."""
    if answer.status != 200:
        return Silence(f"the API answered {answer.status} {answer.reason}")
    try:
        found = json.loads(answer.data)
    except (ValueError, RecursionError):
        return Silence("the API answered with no JSON")
    return found if isinstance(found, dict) else Silence("the API answered with no object")


def ask_readiness(client: Any) -> None:
    """Ask whether the server can serve: one whose etcd is away still tells its version.

    Raises:
        NotReady: it says that it cannot.
        NotReadable: it does not answer.
    """
    answer = call(get_untyped, client, "/readyz")
    if answer.status != 200:
        raise NotReady(f"the API server is not ready: {answer.status} {answer.reason}")


def ask_version(client: Any) -> None:
    """Ask what every server can tell that accepts these credentials.

    Raises:
        NotReadable: it does not.
    """
    from kubernetes.client import VersionApi

    call(VersionApi(client).get_code)


def _not_whole() -> NotReadable:
    return NotReadable("its admin.conf is incomplete")


def _named(config: Any, kind: str, name: str) -> Any:
    return {item["name"]: item for item in config[kind]}[name]


@contextmanager
def _files(texts: Sequence[bytes]) -> Iterator[list[str]]:
    """Paths to the texts, for as long as the block lasts; each may be opened again and again."""
    with ExitStack() as stack:
        # Not on macOS: there the end of the block removes a folder that nobody else may enter.
        if hasattr(os, "memfd_create") and OPEN_FILES.is_dir():
            paths = [OPEN_FILES / str(stack.enter_context(_memory(text))) for text in texts]
        else:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="appliance-")))
            paths = [_private(folder / str(number), text) for number, text in enumerate(texts)]
        yield [str(path) for path in paths]


@contextmanager
def _memory(text: bytes) -> Iterator[int]:
    """A file in memory, by its number; programs that this process starts do not inherit it."""
    with os.fdopen(os.memfd_create("appliance"), "wb") as file:
        file.write(text)
        file.flush()
        yield file.fileno()


def _private(path: Path, text: bytes) -> Path:
    path.touch(0o600)
    path.write_bytes(text)
    return path
