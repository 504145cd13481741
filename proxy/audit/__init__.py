"""What happened: one trail per request, written where operators look for it."""
