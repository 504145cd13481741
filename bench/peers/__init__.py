"""What one would use instead of us: real programs as their authors ship them, set up for the stage.

Each file owns one of them: how to get it, how to start it, and what it does less than we do. None
is built or fetched before it is started.
"""
