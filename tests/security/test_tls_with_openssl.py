"""What OpenSSL's own client gets from a listener, as auditors of TLS check it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from kraft_trio.node import Node
from tests.security.test_mutual_tls import bootstrap, configs, nodes_of
from tests.support.certificates import authority, foreign_authority, issue, write_store, write_trust

OPENSSL = shutil.which("openssl")
SESSION_S = 60
HANDSHAKES_IN_VAIN = 20

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[tuple[Node, str, list[str]]]:
    """A node that wants certificates, its address, and the options by which a client shows one that it trusts."""
    (config,) = configs(directory, range(1, 2))
    store, trust = write_store(directory / "client.pem", issue(authority(), "client")), directory / "trust.pem"
    known = ["-cert", str(store), "-key", str(store), "-CAfile", str(write_trust(trust, authority()))]
    async with nodes_of([config]) as [node]:
        yield node, bootstrap(config), known


async def session(address: str, *options: str, sent: str = "") -> str:
    """What `openssl s_client` prints until the node has closed the connection, or the input has ended."""
    assert OPENSSL is not None
    command = [OPENSSL, "s_client", "-connect", address, "-servername", "localhost", *options]
    run = partial(
        subprocess.run,
        command,
        input=sent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SESSION_S,
        check=False,
    )
    return (await trio.to_thread.run_sync(run)).stdout


def known_ciphers() -> list[str]:
    assert OPENSSL is not None
    command = [OPENSSL, "ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(":")


def cipher_of(told: str) -> str:
    """The suite that was agreed on; `(NONE)` without an agreement."""
    match = re.search(r"^(?:New|Reused), .*Cipher is (\S+)$", told, re.MULTILINE)
    return match[1] if match else "(NONE)"


async def test_only_new_versions_are_spoken(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, address, known):
        for version in ("-tls1", "-tls1_1"):
            told = await session(address, *known, version, "-cipher", "ALL:@SECLEVEL=0")
            assert cipher_of(told) == "(NONE)", told
            assert "alert protocol version" in told
        for version, name in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
            told = await session(address, *known, version, "-verify_return_error")
            assert f"New, {name}, Cipher is " in told
            assert "Verify return code: 0 (ok)" in told


async def test_only_strong_ciphers_with_forward_secrecy_are_offered(tmp_path: Path) -> None:
    """Of all that OpenSSL knows for TLS 1.2; TLS 1.3 has no others."""
    of_tls_1_2 = [name for name in known_ciphers() if not name.startswith(("TLS_", "PSK", "SRP"))]
    offered: set[str] = set()
    async with serving(tmp_path) as (_, address, known):

        async def try_out(names: list[str]) -> None:
            """All at once, then all but the one that was chosen, until the node takes none of the rest."""
            while names:
                told = await session(address, *known, "-tls1_2", "-cipher", f"{':'.join(names)}:@SECLEVEL=0")
                chosen = cipher_of(told)
                if chosen == "(NONE)":
                    return
                offered.add(chosen)
                names = [name for name in names if name != chosen]

        await try_out(of_tls_1_2)
    assert offered == {
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    }


async def test_nothing_is_renegotiated_or_compressed(tmp_path: Path) -> None:
    """A client that asks for renegotiation again and again is refused each time, and costs no handshake."""
    async with serving(tmp_path) as (node, address, known):
        told = await session(address, *known, "-tls1_2", sent="R\n" * HANDSHAKES_IN_VAIN)
        assert "Secure Renegotiation IS supported" in told  # which tells only that RFC 5746 is understood
        assert "Compression: NONE" in told
        assert told.count("Verify return code") <= 1
        assert re.search("no renegotiation|RENEGOTIATING", told)
        assert await node.append([b"the node works"])


async def test_only_tls_1_2_has_tickets_and_new_certificates_end_them(tmp_path: Path) -> None:
    """TLS 1.3 shows the certificate on each connection.  TLS 1.2 need not, until the node takes over other files."""
    async with serving(tmp_path) as (_, address, known):
        kept = str(tmp_path / "session")
        told = await session(address, *known, "-tls1_3", "-sess_out", kept)
        assert "TLS session ticket:" not in told
        told = await session(address, *known, "-tls1_2", "-sess_out", kept)
        assert 0 < int(re.findall(r"ticket lifetime hint: (\d+)", told)[0]) <= 7200
        assert re.search("^Reused, ", await session(address, *known, "-tls1_2", "-sess_in", kept), re.MULTILINE)
        write_store(tmp_path / "node-1.pem", issue(authority(), "node-1"))
        with trio.fail_after(SESSION_S):
            while "\nReused, " in await session(address, *known, "-tls1_2", "-sess_in", kept):
                pass
        assert cipher_of(await session(address, *known, "-tls1_2", "-sess_in", kept)) != "(NONE)"


async def test_alerts_tell_nothing_but_their_kind(tmp_path: Path) -> None:
    """A stranger gets an alert of the protocol, and no byte besides."""
    async with serving(tmp_path) as (node, address, known):
        old = await session(address, *known, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-msg")
        anonymous = await session(address, "-tls1_2", "-msg")
        assert await node.append([b"the node works"])
    for told, alert in ((old, "protocol_version"), (anonymous, "handshake_failure")):
        assert re.search(rf"<<< .*Alert.*fatal {alert}", told), told
        assert "ApplicationData" not in told


async def test_a_certificate_that_is_not_trusted_gets_no_word(tmp_path: Path) -> None:
    """Expired, and of a foreign authority: a request that follows at once is not answered."""
    hello = bytes.fromhex("0000000c0012000000000001000174").decode("latin-1")
    async with serving(tmp_path) as (node, address, known):
        for certificate in (issue(authority(), "late", is_expired=True), issue(foreign_authority(), "foreign")):
            store = write_store(tmp_path / "stranger.pem", certificate)
            for version in ("-tls1_2", "-tls1_3"):
                options = ("-cert", str(store), "-key", str(store), *known[4:], version, "-quiet", "-ign_eof")
                told = await session(address, *options, sent=hello)
                assert re.search("alert (certificate expired|unknown ca)", told), told
        assert node.metrics.values()["number-of-failed-tls-handshakes"] == 4
        assert await node.append([b"the node works"])
