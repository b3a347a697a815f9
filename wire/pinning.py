"""The authority that a TLS peer of the master trusts, known by the SHA-256 of its certificate.

Used by the clients and, on the nodes, by agents that dial in; it travels there, so: standard library only, Python 3.8
syntax. It owns how a certificate is named and what is checked of the master's; it opens no connection, and loads `ssl`
only for who asks for a context.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

OWN_AUTHORITY = "Muster authority"
"""How the authorities that masters make for themselves are called. One of these signs for one master only, so whoever
shows a certificate of it is that master, by whatever name it was reached, and whatever this machine's clock says. Any
other authority may sign for many: there the host's name and the dates count, too."""
ENDED, NOT_YET, OTHER_NAMES = "ended", "not yet", "other names"
"""The faults that `doubt` finds."""
_PARTIAL_CHAIN = 0x80000
_NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_…: Python has names for them from 3.10 on, or none."""
_X509_NOT_YET, _X509_ENDED = 9, 10
_X509_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_…: of a host's name, and of an address."""


def fingerprint(pem: str) -> str:
    """`sha256:` and 64 hex digits. Raises ValueError for what is no certificate in PEM."""
    import hashlib  # noqa: PLC0415

    return "sha256:" + hashlib.sha256(_der(pem)).hexdigest()


def normal(text: str) -> str:
    """A fingerprint as `fingerprint` gives it, from `AB:CD:…` or `SHA256:abcd…`, too. Raises ValueError."""
    head, _, rest = text.strip().lower().partition("sha256:")
    digits = (head or rest).replace(":", "")
    if len(digits) != 64 or digits.strip("0123456789abcdef"):  # noqa: PLR2004  (hex digits of a SHA-256)
        raise ValueError(f"{text!r} is not a fingerprint: sha256: and 64 hex digits")
    return "sha256:" + digits


def pinned(pem: str, *, is_shown: bool = False) -> ssl.SSLContext:
    """A context for connections to the master whose authority this is; `is_shown`: which shows this very certificate,
    and then neither its names nor its dates matter. Raises ValueError."""
    import ssl  # noqa: PLC0415

    der = _der(pem)
    context = _context()
    is_known = is_shown or OWN_AUTHORITY.encode() in der
    context.check_hostname = not is_known
    try:
        context.load_verify_locations(cadata=der)
    except ssl.SSLError as error:
        raise ValueError(f"not a certificate: {error.reason}") from None
    # The pinned certificate need not be a root: a lab's own may come without its issuer.
    context.verify_flags = ssl.VerifyFlags(context.verify_flags | _PARTIAL_CHAIN | (_NO_CHECK_TIME if is_known else 0))
    return context


def doubt(error: ssl.SSLCertVerificationError) -> str:
    """Return the fault of a refused certificate if it says nothing about the issuer: ENDED, NOT_YET or OTHER_NAMES.
    Else empty."""
    if error.verify_code in _X509_OTHER_NAME:
        return OTHER_NAMES
    return {_X509_ENDED: ENDED, _X509_NOT_YET: NOT_YET}.get(error.verify_code, "")


def unverified() -> ssl.SSLContext:
    """A context that believes whoever answers: only for asking for the authority, which is then looked at."""
    import ssl  # noqa: PLC0415

    context = _context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _context() -> ssl.SSLContext:
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _der(pem: str) -> bytes:
    import base64  # noqa: PLC0415

    _, begin, rest = pem.partition("-----BEGIN CERTIFICATE-----")
    body, end, _ = rest.partition("-----END CERTIFICATE-----")
    if not begin or not end:
        raise ValueError("not a certificate in PEM")
    return base64.b64decode("".join(body.split()), validate=True)
