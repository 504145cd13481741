"""May the caller act as that identity, for this action? Asks the API server and remembers a yes.

Never remembers a no, and never turns a failure to ask into an answer.
"""
