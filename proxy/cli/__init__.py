"""The command line: one module per command, with its options and exit codes.

No command decides or forwards. A user error is one line and a non-zero exit code.
"""
