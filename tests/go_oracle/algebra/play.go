package main

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
)

// triple is an unconditional decision.
type triple struct {
	Decision string  `json:"decision"`
	Reason   string  `json:"reason"`
	Error    *string `json:"error"`
}

// result is everything that was observed of one case; a step that does not apply is null.
type result struct {
	Built        *dumped  `json:"built"`
	FoldClosed   *triple  `json:"foldClosed"`
	FoldError    *triple  `json:"foldError"`
	Partial      *dumped  `json:"partial"`
	PartialTrace []string `json:"partialTrace"`
	Map          *triple  `json:"map"`
	MapTrace     []string `json:"mapTrace"`
	Chain        *chained `json:"chain"`
}

// chained is what a chain of the root's members makes of the request.
type chained struct {
	NewError     *string  `json:"newError"`
	Asked        *dumped  `json:"asked"`
	AskTrace     []string `json:"askTrace"`
	Evaluated    *triple  `json:"evaluated"`
	Trace        []string `json:"trace"`
	AfterPartial *triple  `json:"afterPartial"`
	LateTrace    []string `json:"lateTrace"`
	Unaware      *triple  `json:"unaware"`
}

func parts(decision authorizer.Decision, reason string, err error) *triple {
	return &triple{decision.String(), reason, errorText(err)}
}

// unconditional shows a decision that a union was reduced to.
func unconditional(d authorizer.ConditionsAwareDecision) *triple {
	return &triple{dump("", d).Kind, d.Reason(), errorText(d.Error())}
}

func play(root *node) *result {
	ctx := context.Background()
	trace := []string{}
	built := root.build(&trace)
	played := &result{Built: dump("", built), FoldClosed: foldClosed(built), FoldError: foldError(built)}
	var evaluate authorizer.MaybeEvaluateConditionFunc
	if root.HasCallback {
		evaluate = callBack
	}
	partial := authorizer.PartiallyEvaluateConditionsAwareDecision(ctx, built, nil, evaluate)
	played.Partial = dump("", partial)
	played.PartialTrace = trace
	trace = []string{}
	if built.IsConditionsMap() {
		played.Map = parts(built.ConditionsMap().Evaluate(ctx, nil, decideCondition))
		played.MapTrace = trace
	}
	if root.Kind == "Union" {
		played.Chain = playChain(ctx, root)
	}
	return played
}

func playChain(ctx context.Context, root *node) *chained {
	trace := []string{}
	whole, evaluating, err := chains(root, &trace)
	if err != nil {
		return &chained{NewError: errorText(err)}
	}
	played := &chained{}
	asked := whole.ConditionsAwareAuthorize(ctx, nil)
	played.Asked, played.AskTrace, trace = dump("", asked), trace, []string{}
	played.Evaluated = parts(evaluating.EvaluateConditions(ctx, asked, nil))
	played.Trace, trace = trace, []string{}
	partial := authorizer.PartiallyEvaluateConditionsAwareDecision(ctx, asked, nil, nil)
	trace = []string{}
	if partial.IsUnion() {
		played.AfterPartial = parts(evaluating.EvaluateConditions(ctx, partial, nil))
	} else {
		played.AfterPartial = unconditional(partial)
	}
	played.LateTrace = trace
	if hasFolds {
		played.Unaware = parts(whole.Authorize(ctx, nil))
	}
	return played
}

// chains returns the chain that is asked, and the one that evaluates: without missing authorizers.
func chains(root *node, trace *[]string) (whole, evaluating authorizer.Authorizer, err error) {
	var all, left []union.NamedAuthorizer
	for _, one := range root.Members {
		named := union.NamedAuthorizer{AuthorizerName: one.Name, Authorizer: member{one, trace}}
		all = append(all, named)
		if one.Evaluator != "missing" {
			left = append(left, named)
		}
	}
	if whole, err = union.New(all...); err != nil {
		return nil, nil, err
	}
	evaluating, err = union.New(left...)
	return whole, evaluating, err
}

// member is an authorizer that gives a fixed decision and records what it is asked.
type member struct {
	*node
	trace *[]string
}

func (m member) record(what string) { *m.trace = append(*m.trace, what+" "+m.Name) }

func (m member) Authorize(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
	if m.Kind == "Union" {
		if whole, _, err := chains(m.node, m.trace); err == nil {
			return whole.Authorize(ctx, nil)
		}
	}
	return closedParts(m.build(m.trace))
}

func (m member) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	m.record("ask")
	return m.build(m.trace)
}

func (m member) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, _ authorizer.ConditionsData) (authorizer.Decision, string, error) {
	m.record("evaluate")
	switch m.Evaluator {
	case "unsupported":
		return authorizer.AuthorizerFunc(nil).EvaluateConditions(ctx, d, nil)
	case "fixed":
		decision := map[string]authorizer.Decision{
			"Allow": authorizer.DecisionAllow, "Deny": authorizer.DecisionDeny, "NoOpinion": authorizer.DecisionNoOpinion,
		}[m.Fixed.Kind]
		return decision, m.Fixed.Reason, m.Fixed.err()
	}
	if d.IsConditionsMap() {
		return d.ConditionsMap().Evaluate(ctx, nil, decideCondition)
	}
	_, evaluating, err := chains(m.node, m.trace)
	if err != nil {
		return d.FailureDecision(), "failed closed", errors.New("no chain")
	}
	return evaluating.EvaluateConditions(ctx, d, nil)
}
