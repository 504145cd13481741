package main

import (
	"context"
	"errors"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// node describes a decision, and as a member of a union also the authorizer that gave it.
type node struct {
	Kind      string       `json:"kind"`
	Reason    string       `json:"reason"`
	Errors    []string     `json:"errors"`
	Deny      []*condition `json:"deny"`
	NoOpinion []*condition `json:"noOpinion"`
	Allow     []*condition `json:"allow"`
	Members   []*node      `json:"members"`
	// As a member of a union.
	Name      string `json:"name"`
	Evaluator string `json:"evaluator"` // own, unsupported, missing, or fixed: returns `fixed`
	Fixed     *node  `json:"fixed"`
	// Of the root only: whether the caller gives an evaluator.
	HasCallback bool `json:"hasCallback"`
}

// condition is a condition with its outcomes: true, false, unevaluatable, nil (an error without a
// text), or a text that begins with "error:".
type condition struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	Body        string `json:"body"`
	Description string `json:"description"`
	Own         string `json:"own"`
	Callback    string `json:"callback"`
}

// traced is a condition that records that it was evaluated.
type traced struct {
	*condition
	trace *[]string
}

func (c traced) GetID() string          { return c.ID }
func (c traced) GetType() string        { return c.Type }
func (c traced) GetCondition() string   { return c.Body }
func (c traced) GetDescription() string { return c.Description }

func (c traced) Evaluate(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	*c.trace = append(*c.trace, "own "+c.ID)
	return outcome(c.Own)
}

func outcome(text string) authorizer.ConditionEvaluationResult {
	switch text {
	case "true", "false":
		return authorizer.ConditionEvaluationResultBoolean(text == "true")
	case "unevaluatable":
		return authorizer.ConditionsEvaluationResultUnevaluatable()
	case "nil":
		return authorizer.ConditionEvaluationResultError(nil)
	default:
		return authorizer.ConditionEvaluationResultError(errors.New(text[len("error:"):]))
	}
}

// callBack is the evaluator of the caller, which may be unable to evaluate.
func callBack(_ context.Context, c authorizer.Condition, _ authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
	one := c.(traced)
	*one.trace = append(*one.trace, "callback "+one.ID)
	return outcome(one.Callback)
}

// decideCondition is the evaluator of the caller at enforcement: true, false or an error.
func decideCondition(_ context.Context, c authorizer.Condition, _ authorizer.ConditionsData) (bool, error) {
	one := c.(traced)
	*one.trace = append(*one.trace, "callback "+one.ID)
	if one.Callback == "unevaluatable" {
		return false, errors.New("cannot evaluate")
	}
	result := outcome(one.Callback)
	return result.IsTrue(), result.Error()
}

func (n *node) err() error {
	switch len(n.Errors) {
	case 0:
		return nil
	case 1:
		return errors.New(n.Errors[0])
	default:
		all := make([]error, len(n.Errors))
		for i, one := range n.Errors {
			all[i] = errors.New(one)
		}
		return utilerrors.NewAggregate(all)
	}
}

func (n *node) build(trace *[]string) authorizer.ConditionsAwareDecision {
	switch n.Kind {
	case "Allow":
		return authorizer.ConditionsAwareDecisionAllow(n.Reason, n.err())
	case "Deny":
		return authorizer.ConditionsAwareDecisionDeny(n.Reason, n.err())
	case "NoOpinion":
		return authorizer.ConditionsAwareDecisionNoOpinion(n.Reason, n.err())
	case "ConditionsMap":
		return authorizer.ConditionsAwareDecisionConditionsMap(
			conditions(n.Deny, trace), conditions(n.NoOpinion, trace), conditions(n.Allow, trace))
	default:
		var union authorizer.ConditionsAwareDecisionUnion
		for _, member := range n.Members {
			union.Add(member.Name, member.build(trace))
		}
		return union.ToDecision()
	}
}

func conditions(listed []*condition, trace *[]string) []authorizer.Condition {
	built := make([]authorizer.Condition, len(listed))
	for i, one := range listed {
		built[i] = traced{one, trace}
	}
	return built
}

// dumped is a decision with everything that can be read from it.
type dumped struct {
	Kind      string    `json:"kind"`
	Reason    string    `json:"reason"`
	Error     *string   `json:"error"`
	Deny      []string  `json:"deny"`
	NoOpinion []string  `json:"noOpinion"`
	Allow     []string  `json:"allow"`
	Members   []*dumped `json:"members"`
	Name      string    `json:"name"`
	Possible  []string  `json:"possible"`
	Failure   string    `json:"failure"`
	IsFinal   bool      `json:"isFinal"` // whether a leaf is an unconditional Allow or Deny
}

func dump(name string, d authorizer.ConditionsAwareDecision) *dumped {
	shown := &dumped{
		Reason: d.Reason(), Error: errorText(d.Error()), Name: name,
		Possible: possible(d), Failure: d.FailureDecision().String(),
		IsFinal: d.ContainsUnconditionalAllowOrDeny(),
	}
	switch {
	case d.IsAllow():
		shown.Kind = "Allow"
	case d.IsDeny():
		shown.Kind = "Deny"
	case d.IsNoOpinion():
		shown.Kind = "NoOpinion"
	case d.IsConditionsMap():
		shown.Kind = "ConditionsMap"
		for one := range d.ConditionsMap().DenyConditions() {
			shown.Deny = append(shown.Deny, one.GetID())
		}
		for one := range d.ConditionsMap().NoOpinionConditions() {
			shown.NoOpinion = append(shown.NoOpinion, one.GetID())
		}
		for one := range d.ConditionsMap().AllowConditions() {
			shown.Allow = append(shown.Allow, one.GetID())
		}
	default:
		shown.Kind = "Union"
		for member, decision := range d.UnionedDecisions() {
			shown.Members = append(shown.Members, dump(member, decision))
		}
	}
	return shown
}

func possible(d authorizer.ConditionsAwareDecision) []string {
	names := []string{}
	for _, one := range sets.List(d.PossibleDecisions()) {
		names = append(names, one.String())
	}
	return names
}

func errorText(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
