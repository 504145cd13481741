"""Who is calling? Certificates and tokens become a Caller, or the request is refused.

Never guesses: a credential that cannot be verified is no credential.
"""
