"""Authorization: may the caller impersonate that user for this request?

Permissions are checked by SubjectAccessReview at the API server, and successes are cached. Denials
are never cached, and a failed review is never treated as an answer.
"""
