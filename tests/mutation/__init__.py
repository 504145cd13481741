"""`make mutants`: each guard taken away in turn, and the regression's tests must notice."""
