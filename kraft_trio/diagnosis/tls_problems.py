"""Why no secure connection to a node could be made, and what to do about it.

A node that fails a TLS handshake runs, so it is not to be started.
"""

from __future__ import annotations

from typing import Final

ADVICE: Final = (
    (
        "alert certificate required",
        "no certificate was shown",
        "Name one (`ssl.keystore.location`); for a command, in the file of `--command-config`.",
    ),
    (
        "alert certificate expired",
        "the certificate shown has expired",
        "Replace that certificate (`ssl.keystore.location`).",
    ),
    (
        "alert unknown ca",
        "the certificate shown is not trusted there",
        "Show another one (`ssl.keystore.location`), with its intermediate certificates, or add its authority to the "
        "trust store there.",
    ),
    (
        "alert unsupported certificate",
        "the certificate shown may not be used for that",
        "Show one with the extended key usages serverAuth and clientAuth (`ssl.keystore.location`), or with none.",
    ),
    (
        "alert bad certificate",
        "the certificate shown was refused there",
        "The log there says why. If it is not valid yet, correct the clock there.",
    ),
    (
        "certificate is not yet valid",
        "the certificate there is not valid yet",
        "Correct the clock of this machine, or of the one that issued it.",
    ),
    (
        "certificate purpose",
        "the certificate there may not be used for that",
        "Give the node one with the extended key usages serverAuth and clientAuth, or with none.",
    ),
    (
        "certificate has expired",
        "the certificate there has expired",
        "Replace the files; the node reloads them while it runs.",
    ),
    (
        "certificate is not valid for",
        "the certificate there names other hosts",
        "Ask at a host that it names, or give the node a certificate for this one.",
    ),
    (
        "unable to get local issuer certificate",
        "the certificate there is not trusted here, or comes without its chain",
        "Name its authority (`ssl.truststore.location`); for a command, in the file of `--command-config`. If it has "
        "intermediate certificates, add them to the key store there.",
    ),
    (
        "certificate verify failed",
        "the certificate there is not trusted here",
        "Name its authority (`ssl.truststore.location`); for a command, in the file of `--command-config`.",
    ),
)
"""What OpenSSL says, the cause, and the remedy.  The first row counts whose text is in the problem."""


def tls_problem(problem: str | None) -> tuple[str, str] | None:
    """The cause and the remedy of a connection's problem; None if certificates are not the reason."""
    if problem is None:
        return None
    return next(((cause, remedy) for text, cause, remedy in ADVICE if text in problem), None)
