"""A hop beside an application: its requests go on to the proxy, as one configured identity.

It has no credential, decides nothing and knows nobody: the application's own Authorization goes on
as it came, and the proxy decides.
"""
