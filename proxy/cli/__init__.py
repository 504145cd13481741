"""The doors for people: commands, their arguments and exit codes.

Nothing here decides or forwards; a mistake of the user is one line and a non-zero exit.
"""
