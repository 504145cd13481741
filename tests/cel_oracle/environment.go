package main

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

// policyVariables are those of the policy language; a wire condition uses four of them.
var policyVariables = []string{
	"request", "impersonatedRequest", "object", "oldObject", "options", "operation", "namespaceObject",
}

type question struct {
	Expression string           `json:"expression"`
	Inputs     []map[string]any `json:"inputs"`
	// AnyResult accepts an expression whose type is not bool.
	AnyResult bool `json:"anyResult"`
}

// answer has exactly one of a compile error, a program error and outcomes.
type answer struct {
	CompileError string    `json:"compileError,omitempty"`
	ProgramError string    `json:"programError,omitempty"`
	Type         string    `json:"type,omitempty"`
	Outcomes     []outcome `json:"outcomes,omitempty"`
}

// outcome is a value or an error, with the cost of getting there.
type outcome struct {
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
	Cost  uint64 `json:"cost"`
}

type declaration struct {
	Name   string   `json:"name"`
	ID     string   `json:"id"`
	Member bool     `json:"member"`
	Args   []string `json:"args"`
	Result string   `json:"result"`
}

type environments struct {
	base   *cel.Env
	policy *cel.Env
}

func newEnvironments() (*environments, error) {
	set := environment.MustBaseEnvSet(version.MajorMinor(1, 37))
	base, err := set.Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	var variables []cel.EnvOption
	for _, name := range policyVariables {
		variables = append(variables, cel.Variable(name, cel.DynType))
	}
	extended, err := set.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: variables,
	})
	if err != nil {
		return nil, err
	}
	policy, err := extended.Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	return &environments{base: base, policy: policy}, nil
}

func (e *environments) answer(q *question) answer {
	return evaluateAll(e.policy, q.Expression, q.Inputs, true)
}

func evaluateAll(env *cel.Env, expression string, inputs []map[string]any, check bool) (answered answer) {
	// The validator of literals panics for an optional element of type dyn.
	defer func() {
		if failure := recover(); failure != nil {
			answered = answer{CompileError: fmt.Sprintf("panic: %v", failure)}
		}
	}()
	var tree *cel.Ast
	var issues *cel.Issues
	if check {
		tree, issues = env.Compile(expression)
	} else {
		tree, issues = env.Parse(expression)
	}
	if issues.Err() != nil {
		return answer{CompileError: issues.Err().Error()}
	}
	answered = answer{Type: tree.OutputType().String()}
	program, err := env.Program(tree)
	if err != nil {
		answered.ProgramError = err.Error()
		return answered
	}
	for _, input := range inputs {
		answered.Outcomes = append(answered.Outcomes, evaluate(program, input))
	}
	return answered
}

func evaluate(program cel.Program, input map[string]any) outcome {
	vars := map[string]any{}
	for name, value := range input {
		vars[name] = native(value)
	}
	return run(program, vars)
}

func run(program cel.Program, vars map[string]any) outcome {
	value, details, err := program.Eval(vars)
	var cost uint64
	if details != nil {
		if actual := details.ActualCost(); actual != nil {
			cost = *actual
		}
	}
	if err != nil {
		return outcome{Error: err.Error(), Cost: cost}
	}
	return outcome{Value: encode(value), Cost: cost}
}

// native decodes numbers as the API server does: integers are int64, others double.
func native(value any) any {
	switch v := value.(type) {
	case json.Number:
		if number, err := v.Int64(); err == nil {
			return number
		}
		number, _ := v.Float64()
		return number
	case map[string]any:
		converted := make(map[string]any, len(v))
		for key, member := range v {
			converted[key] = native(member)
		}
		return converted
	case []any:
		converted := make([]any, len(v))
		for i, member := range v {
			converted[i] = native(member)
		}
		return converted
	}
	return value
}

func (e *environments) declarations() []declaration {
	var all []declaration
	for name, function := range e.base.Functions() {
		for _, overload := range function.OverloadDecls() {
			args := []string{}
			for _, arg := range overload.ArgTypes() {
				args = append(args, arg.String())
			}
			all = append(all, declaration{
				Name: name, ID: overload.ID(), Member: overload.IsMemberFunction(),
				Args: args, Result: overload.ResultType().String(),
			})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func number(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return strings.TrimSpace(fmt.Sprintf("%.17g", f))
}
