"""Authentication: client certificates, bearer tokens and front proxy headers become a `Caller`.

It fails closed: a credential that cannot be verified counts as no credential.
"""
