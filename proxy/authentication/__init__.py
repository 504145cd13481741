"""Who is calling? Certificates, tokens and a front proxy's word become a Caller, or a refusal.

Never guesses: a credential that cannot be verified is no credential.
"""
