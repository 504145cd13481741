//go:build exported_folds

package main

import "k8s.io/apiserver/pkg/authorization/authorizer"

const hasFolds = true

func foldClosed(d authorizer.ConditionsAwareDecision) *triple {
	return parts(d.UnconditionalPartsOrFailClosed())
}

func foldError(d authorizer.ConditionsAwareDecision) *triple {
	return parts(d.UnconditionalPartsOrError())
}

func closedParts(d authorizer.ConditionsAwareDecision) (authorizer.Decision, string, error) {
	return d.UnconditionalPartsOrFailClosed()
}
