"""What the proxy costs beside others, as ratios inside one run.

Results go to `bench/results/`, which is not part of the repository: figures of one machine say
nothing about another. Those that a decision rests on are in `docs/decisions/`.
"""
