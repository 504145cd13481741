//go:build !exported_folds

package main

import "k8s.io/apiserver/pkg/authorization/authorizer"

// In 0.37 the function that folds a conditional decision is private.
const hasFolds = false

func foldClosed(authorizer.ConditionsAwareDecision) *triple { return nil }

func foldError(authorizer.ConditionsAwareDecision) *triple { return nil }

func closedParts(d authorizer.ConditionsAwareDecision) (authorizer.Decision, string, error) {
	return d.FailureDecision(), "", nil
}
