"""TLS as a client: what is trusted, and what is shown."""

import ssl


def client_context(
    ca_file: str | None, certificate_file: str | None, key_file: str | None
) -> ssl.SSLContext:
    """Return a context that trusts these CAs, or the system's, and shows a certificate if any.

    Blocks on files. Raises OSError, of which ssl.SSLError is one, for what cannot be used.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 asks for extensions that the CAs of several managed clusters do not carry.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if certificate_file:
        context.load_cert_chain(certificate_file, key_file)
    return context
