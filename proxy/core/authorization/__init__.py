"""Access checks and their SubjectAccessReview form."""
