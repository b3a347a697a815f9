"""Faults of the certificate that the three ports show."""

from __future__ import annotations

CERTIFICATES: dict[str, str] = {
    "tls_unreadable": "{file} cannot be read: {why}",
    "tls_key_open": "{file}: others may read this key: `chmod 600 {file}`",
    "tls_no_certificate": "{file}: the certificate cannot be used: {why}. The file holds certificates in PEM, the "
    "master's own first",
    "tls_no_key": "{file}: the key cannot be used: {why}. The file holds one private key in PEM",
    "tls_key_locked": "{file}: the key has a password, and nobody is there to type it: `openssl pkey -in {file} -out "
    "NEW` writes it without one",
    "tls_key_of_another": "{key} is not the key of {subject}, the first certificate in {cert}: name the key that "
    "belongs to it, or put the master's own certificate first",
    "tls_not_begun": "{cert}: the certificate of {subject} begins only on {begins}: look at this machine's clock, or "
    "put one there that holds now",
    "tls_ended": "{cert}: the certificate of {subject} ended on {ends}: put a new one there, with its key",
    "tls_ends_soon": "{cert}: the certificate of {subject} ends on {ends}, in {days} {days:day|days}: put a new one "
    "there, with its key; the running master takes it",
    "tls_not_for_servers": "{cert}: the certificate of {subject} is not one for servers (its extended key usage): ask "
    "for one that is",
    "tls_no_names": "{cert}: the certificate of {subject} names no host (it has no subject alternative names), and no "
    "client would believe it: ask for one with the name by which the master is called",
    "tls_chain_incomplete": "{cert}: the certificate of {issuer}, which signed that of {subject}, is missing: append "
    "it, and those above it up to the authority",
    "tls_chain_wrong": "{cert}: the chain does not hold at {subject}: {why}",
    "tls_no_authority": "{cert}: the authority above {subject} is neither in the file nor among those that this system "
    "trusts, so clients pin {subject}: append the authority's certificate, or a renewal that comes of another issuer "
    "locks them out",
    "tls_self_signed": "{cert}: the certificate of {subject} is its own authority, so each renewal has to be told to "
    'every client and agent: have it signed by an authority of the lab\'s, or use `"tls": "auto"`, which renews itself',
    "tls_other_names": "{cert}: the certificate is for {names}, and for nothing that this machine is called "
    "({called}): clients and agents must call the master by one of the former",
    "tls_other_authority": "{cert}: the new certificate does not come of the authority that clients and agents have "
    "pinned ({old}), and would lock them out: put one of the same authority there; or restart the master, which takes "
    "it, and tell them the new one (--ca-fingerprint {new}; agents: --authority)",
    "tls_authority_changed": "the authority of the ports' certificate is {new} now, and was {old}: clients and agents "
    "that pinned that one must be told (--ca-fingerprint; agents: --authority)",
    "tls_refused": "the new certificate is not taken, and the one before stays in use until {ends}: {because:; }",
    "tls_not_renewed": "the master's own certificate, which ends on {ends}, is not renewed: {why}",
    "tls_key_in_reach": "tasks on {nodes:subject} run as the master's own account, or as root, and can read the key of "
    'the ports\' certificate: let them run as another account (in the registry `"driver": "ssh", "ip": '
    '"127.0.0.1", "user_name": OTHER`), or accept it with `desktop_client.local_nodes`: `allow`',
}
