"""The sidecar (`understudy act`): forwards an application's requests as one configured user.

It has no credential and makes no decision. The application's Authorization header is forwarded
unchanged, and the proxy authenticates and authorizes the request.
"""
