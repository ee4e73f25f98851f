"""The TLS side of the HTTPS port, in handshakes without a network: who is shown what, and whose word counts."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from pyscheduler.flags.go_values import NamedPair
from pyscheduler.flags.run_flags import SecureServingFlags
from pyscheduler.framework.errors import ConfigError
from pyscheduler.serving.certificates import names_in, self_signed, self_signed_by_child
from pyscheduler.serving.tls_serving import ServingTLS
from tests import processes
from tests.serving.pem import Authority


def connect(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str | None = "localhost"
) -> tuple[ssl.SSLObject, ...]:
    """Shake hands in memory; return both ends."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    open_ends = list(ends)
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            open_ends.remove(end)
    assert not open_ends
    return ends


def trusting(*authorities: bytes, pair: tuple[str, str] | None = None) -> ssl.SSLContext:
    """Return a client that trusts these, and shows `pair`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for each in authorities:
        context.load_verify_locations(cadata=each.decode())
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


def indifferent(pair: tuple[str, str] | None = None) -> ssl.SSLContext:
    """Return a client that trusts everybody."""
    context = trusting(pair=pair)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def subject(end: ssl.SSLObject) -> str:
    """Return the name that the other end shows, its certificate being in DER."""
    from cryptography import x509

    der = end.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).subject.rfc4514_string()


@pytest.fixture
def authority() -> Authority:
    """Return an authority."""
    return Authority()


@pytest.fixture
def pair(authority: Authority, tmp_path: Path) -> tuple[str, str]:
    """Return the files of a serving certificate."""
    return authority.pair(tmp_path, "server", names=["localhost", "127.0.0.1"])


def flags_of(pair: tuple[str, str], **more: object) -> SecureServingFlags:
    """Return flags that name a pair."""
    flags = SecureServingFlags(tls_cert_file=pair[0], tls_private_key_file=pair[1])
    return attrs.evolve(flags, **more)  # type: ignore[arg-type] # names of flags


# --- what is made -------------------------------------------------------------------------------


@pytest.mark.slow
def test_certificate_is_generated_by_default() -> None:
    """It is for this machine's own name and addresses, and signs itself."""
    made = self_signed("10.1.2.3")
    assert names_in(made) == ["localhost"]
    tls = ServingTLS(SecureServingFlags())
    client, _ = connect(tls.context, indifferent())
    assert subject(client).startswith("CN=localhost@")
    assert client.version() == "TLSv1.3"
    assert client.selected_alpn_protocol() is None


@pytest.mark.slow
def test_certificate_generation_does_not_load_the_library() -> None:
    """A child process makes the certificate, so that the scheduler does not carry the library for months."""
    code = (
        "import sys; from pyscheduler.flags.run_flags import SecureServingFlags; "
        "from pyscheduler.serving.tls_serving import ServingTLS; "
        "tls = ServingTLS(SecureServingFlags()); assert tls.context; assert 'cryptography' not in sys.modules"
    )
    processes.run(sys.executable, "-c", code, check=True)


def test_certificate_is_generated_in_process_without_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox without child processes still gets a certificate."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    made = self_signed_by_child("10.1.2.3")
    assert names_in(made) == ["localhost"]


@pytest.mark.slow
def test_client_that_trusts_the_generated_certificate_connects() -> None:
    """Its name is checked, as any client does it."""
    tls = ServingTLS(SecureServingFlags())
    made = tls._pairs[0][0].certificate
    connect(tls.context, trusting(made))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(tls.context, trusting(made), "elsewhere.example")


@pytest.mark.slow
def test_cert_dir_is_filled_once(tmp_path: Path) -> None:
    """With --cert-dir the certificate outlives the program; its key is for its owner only."""
    flags = SecureServingFlags(cert_dir=str(tmp_path / "new" / "certs"))
    first = ServingTLS(flags)
    key = tmp_path / "new" / "certs" / "kube-scheduler.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert ServingTLS(flags)._pairs == first._pairs
    assert sorted(each.name for each in key.parent.iterdir()) == ["kube-scheduler.crt", "kube-scheduler.key"]


def test_cert_files_override_cert_dir(pair: tuple[str, str], tmp_path: Path) -> None:
    """As in kube-scheduler, --cert-dir is ignored then."""
    tls = ServingTLS(flags_of(pair, cert_dir=str(tmp_path / "unused")))
    assert subject(connect(tls.context, indifferent())[0]) == "CN=server"
    assert not (tmp_path / "unused").exists()


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        pytest.param("a.example", "CN=a.example", id="its own name"),
        pytest.param("A.EXAMPLE", "CN=a.example", id="in capitals"),
        pytest.param("b.named", "CN=given", id="a name that was given"),
        pytest.param("x.wild", "CN=given", id="a wildcard"),
        pytest.param("x.y.wild", "CN=server", id="not two labels deep"),
        pytest.param("both.example", "CN=given", id="given before its own"),
        pytest.param("other.example", "CN=server", id="nobody's name"),
        pytest.param(None, "CN=server", id="no name"),
    ],
)
def test_sni_selects_the_certificate(
    authority: Authority, pair: tuple[str, str], tmp_path: Path, asked: str | None, shown: str
) -> None:
    """Given names before those in certificates, whole names before wildcards, and else the default."""
    own = authority.pair(tmp_path, "a.example", names=["a.example", "both.example"])
    given = authority.pair(tmp_path, "given", names=["unused.example"])
    flags = flags_of(
        pair,
        tls_sni_cert_key=(NamedPair(*own), NamedPair(*given, ("b.named", "*.wild", "both.example"))),
    )
    assert subject(connect(ServingTLS(flags).context, indifferent(), asked)[0]) == shown


# --- clients ------------------------------------------------------------------------------------


def test_client_certificates(authority: Authority, pair: tuple[str, str], tmp_path: Path) -> None:
    """Clients are asked for one where an authority is known; they may do without; a stranger's ends the handshake."""
    client_pair = authority.pair(tmp_path, "jane", organizations=["dev"], client=True)
    stranger = Authority("another").pair(tmp_path, "eve", client=True)
    tls = ServingTLS(flags_of(pair), client_authorities=[authority.pem])
    _, server = connect(tls.context, indifferent(client_pair))
    shown = server.getpeercert()
    assert shown is not None
    assert (("commonName", "jane"),) in shown["subject"]  # type: ignore[operator] # a tuple of tuples
    assert connect(tls.context, indifferent())[1].getpeercert() is None
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        connect(tls.context, indifferent(stranger))


def test_no_client_certificate_is_requested_without_a_ca(
    authority: Authority, pair: tuple[str, str], tmp_path: Path
) -> None:
    """A client that would show a certificate is served without."""
    client_pair = authority.pair(tmp_path, "jane", client=True)
    assert connect(ServingTLS(flags_of(pair)).context, indifferent(client_pair))[1].getpeercert() is None


# --- what changes while it runs -----------------------------------------------------------------


def test_a_renewed_certificate_is_served_from_the_next_connection_on(
    authority: Authority, pair: tuple[str, str], tmp_path: Path
) -> None:
    """A broken file is a mistake that is told, and changes nothing."""
    tls = ServingTLS(flags_of(pair))
    assert not tls.reload(client_authorities=[])
    (tmp_path / "new").mkdir()
    renewed = authority.pair(tmp_path / "new", "renewed", names=["localhost"])
    for there, here in zip(renewed, pair, strict=True):
        Path(there).replace(here)
    assert subject(connect(tls.context, indifferent())[0]) == "CN=server"
    assert tls.reload(client_authorities=[])
    assert subject(connect(tls.context, indifferent())[0]) == "CN=renewed"
    Path(pair[0]).write_text("half a file")
    with pytest.raises(ConfigError, match="not a certificate and its key in PEM"):
        tls.reload(client_authorities=[])
    assert subject(connect(tls.context, indifferent())[0]) == "CN=renewed"


def test_ca_found_later_is_used(authority: Authority, pair: tuple[str, str], tmp_path: Path) -> None:
    """The cluster's may be looked up after the port is open, and may change."""
    client_pair = authority.pair(tmp_path, "jane", client=True)
    tls = ServingTLS(flags_of(pair))
    assert tls.reload(client_authorities=[authority.pem])
    assert connect(tls.context, indifferent(client_pair))[1].getpeercert()
    assert tls.reload(client_authorities=[Authority("the next").pem])
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        connect(tls.context, indifferent(client_pair))
    assert tls.reload(client_authorities=[])
    assert connect(tls.context, indifferent(client_pair))[1].getpeercert() is None


# --- what is spoken -----------------------------------------------------------------------------


def test_minimum_tls_version(pair: tuple[str, str]) -> None:
    """TLS 1.2 by default; a client that knows nothing newer than what is allowed is turned away."""
    old = indifferent()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert connect(ServingTLS(flags_of(pair)).context, old)[0].version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        connect(ServingTLS(flags_of(pair, tls_min_version="VersionTLS13")).context, old)


def test_cipher_suites_by_gos_names(pair: tuple[str, str]) -> None:
    """Only those are spoken below TLS 1.3."""
    name = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    tls = ServingTLS(flags_of(pair, tls_cipher_suites=(name, "TLS_AES_128_GCM_SHA256")))
    old = indifferent()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    cipher = connect(tls.context, old)[0].cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.mark.parametrize("curve", ["23", "24", "25", "29"])
def test_a_key_exchange_by_gos_number(pair: tuple[str, str], curve: str) -> None:
    """Each of those that can be chosen shakes hands."""
    connect(ServingTLS(flags_of(pair, tls_curve_preferences=(curve,))).context, indifferent())


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"tls_min_version": "TLS1.2"}, '--tls-min-version: unknown tls version "TLS1.2"', id="version"),
        pytest.param(
            {"tls_cipher_suites": ("TLS_NONE",)},
            "--tls-cipher-suites: Cipher suite TLS_NONE not supported or doesn't exist",
            id="cipher suite",
        ),
        pytest.param(
            {"tls_cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)},
            "--tls-cipher-suites: Cipher suite TLS_RSA_WITH_RC4_128_SHA not supported or doesn't exist",
            id="a cipher suite that this OpenSSL has not",
        ),
        pytest.param(
            {"tls_curve_preferences": ("29", "23")},
            "--tls-curve-preferences: 29,23: name one of 23, 24, 25, 29, or remove the flag to allow all",
            id="curves",
        ),
        pytest.param({"tls_curve_preferences": ("1",)}, "--tls-curve-preferences: 1: name one of", id="no curve"),
    ],
)
def test_flags_that_cannot_be_used(pair: tuple[str, str], changes: dict[str, object], expected: str) -> None:
    """One line with the flag's name."""
    with pytest.raises(ConfigError) as raised:
        ServingTLS(flags_of(pair, **changes))
    assert str(raised.value).startswith(expected)


def _missing(pair: tuple[str, str]) -> None:
    Path(pair[0]).unlink()


def _unreadable(pair: tuple[str, str]) -> None:
    Path(pair[1]).unlink()
    Path(pair[1]).mkdir()


def _no_pem(pair: tuple[str, str]) -> None:
    Path(pair[1]).write_text("-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n")


def _another(pair: tuple[str, str]) -> None:
    folder = Path(pair[1]).parent / "another"
    folder.mkdir()
    Path(Authority().pair(folder, "server")[1]).replace(pair[1])


def _encrypted(pair: tuple[str, str]) -> None:
    folder = Path(pair[1]).parent / "encrypted"
    folder.mkdir()
    for there, here in zip(Authority().pair(folder, "server", password=b"secret"), pair, strict=True):
        Path(there).replace(here)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(_missing, "--tls-cert-file: {0}: no such file or directory", id="missing"),
        pytest.param(_unreadable, "--tls-private-key-file: {1}: is a directory", id="a folder"),
        pytest.param(_no_pem, "{both}: the files are not a certificate and its key in PEM", id="no PEM"),
        pytest.param(_another, "{both}: the key does not belong to the certificate", id="another's key"),
        pytest.param(_encrypted, "{both}: the key is encrypted; provide a key without a password", id="locked"),
    ],
)
def test_files_that_cannot_be_used(
    pair: tuple[str, str], spoil: Callable[[tuple[str, str]], None], expected: str
) -> None:
    """One line with flag and file; nobody is asked for a password."""
    spoil(pair)
    with pytest.raises(ConfigError) as raised:
        ServingTLS(flags_of(pair))
    both = f"--tls-cert-file and --tls-private-key-file ({pair[0]}, {pair[1]})"
    assert str(raised.value) == expected.format(*pair, both=both)


def test_a_pair_for_a_name_that_cannot_be_used(pair: tuple[str, str], tmp_path: Path) -> None:
    """The line names its own flag."""
    with pytest.raises(ConfigError, match=r"^--tls-sni-cert-key: .*nowhere: no such file"):
        ServingTLS(flags_of(pair, tls_sni_cert_key=(NamedPair(str(tmp_path / "nowhere"), pair[1]),)))


@pytest.mark.slow
def test_cert_dir_that_cannot_be_created(tmp_path: Path) -> None:
    """The line names flag and path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"^--cert-dir: .*file.*: not a directory$|^--cert-dir: .*: file exists$"):
        ServingTLS(SecureServingFlags(cert_dir=str(tmp_path / "file" / "certs")))


def test_client_ca_file_without_certificate(pair: tuple[str, str]) -> None:
    """The line names its flag."""
    with pytest.raises(ConfigError, match=r"^--client-ca-file: the file contains no certificate in PEM$"):
        ServingTLS(flags_of(pair), client_authorities=[b"nothing"])
