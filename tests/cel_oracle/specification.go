package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	_ "cel.dev/expr/conformance/proto2"
	_ "cel.dev/expr/conformance/proto3"
	testpb "cel.dev/expr/conformance/test"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"google.golang.org/protobuf/encoding/prototext"
)

// specTest is one test of the specification, and what the Kubernetes environment makes of it.
type specTest struct {
	File       string         `json:"file"`
	Section    string         `json:"section"`
	Name       string         `json:"name"`
	Expression string         `json:"expression"`
	Container  string         `json:"container,omitempty"`
	Unchecked  bool           `json:"unchecked,omitempty"`
	Variables  []specVariable `json:"variables,omitempty"`
	Functions  int            `json:"functions,omitempty"`
	NoMacros   bool           `json:"noMacros,omitempty"`
	CheckOnly  bool           `json:"checkOnly,omitempty"`
	Bindings   map[string]any `json:"bindings,omitempty"`
	Unreadable string         `json:"unreadable,omitempty"`
	WantValue  any            `json:"wantValue,omitempty"`
	WantError  bool           `json:"wantError,omitempty"`
	Kubernetes answer         `json:"kubernetes"`
}

type specVariable struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func specification(environments *environments, directory string) ([]specTest, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*.textproto"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	var all []specTest
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var tests testpb.SimpleTestFile
		if err := prototext.Unmarshal(text, &tests); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".textproto")
		for _, section := range tests.GetSection() {
			for _, test := range section.GetTest() {
				all = append(all, runTest(environments, name, section.GetName(), test))
			}
		}
	}
	return all, nil
}

func runTest(environments *environments, file, section string, test *testpb.SimpleTest) specTest {
	result := specTest{
		File: file, Section: section, Name: test.GetName(), Expression: test.GetExpr(),
		Container: test.GetContainer(), Unchecked: test.GetDisableCheck(),
		NoMacros: test.GetDisableMacros(), CheckOnly: test.GetCheckOnly(), Bindings: map[string]any{},
	}
	options := []cel.EnvOption{cel.Container(test.GetContainer())}
	for _, declared := range test.GetTypeEnv() {
		if declared.GetIdent() == nil {
			result.Functions++
			continue
		}
		kind, err := types.ProtoAsType(declared.GetIdent().GetType())
		if err != nil {
			result.Unreadable = err.Error()
			continue
		}
		result.Variables = append(result.Variables, specVariable{declared.GetName(), kind.String()})
		options = append(options, cel.Variable(declared.GetName(), kind))
	}
	inputs := map[string]any{}
	env, err := environments.base.Extend(options...)
	if err != nil {
		result.Unreadable = err.Error()
		return result
	}
	for name, bound := range test.GetBindings() {
		value, err := cel.ProtoAsValue(env.CELTypeAdapter(), bound.GetValue())
		if err != nil {
			result.Unreadable = err.Error()
			continue
		}
		inputs[name] = value
		result.Bindings[name] = encode(value)
	}
	switch want := test.GetResultMatcher().(type) {
	case *testpb.SimpleTest_Value:
		wanted, err := cel.ProtoAsValue(env.CELTypeAdapter(), want.Value)
		if err != nil {
			result.Unreadable = err.Error()
		} else {
			result.WantValue = encode(wanted)
		}
	case *testpb.SimpleTest_TypedResult:
		if want.TypedResult.GetResult() != nil {
			wanted, err := cel.ProtoAsValue(env.CELTypeAdapter(), want.TypedResult.GetResult())
			if err != nil {
				result.Unreadable = err.Error()
			} else {
				result.WantValue = encode(wanted)
			}
		}
	case *testpb.SimpleTest_EvalError, *testpb.SimpleTest_AnyEvalErrors:
		result.WantError = true
	default:
		result.WantValue = []any{"bool", true}
	}
	result.Kubernetes = evaluateNative(env, test.GetExpr(), inputs, true)
	return result
}

func evaluateNative(env *cel.Env, expression string, inputs map[string]any, check bool) answer {
	answered := evaluateAll(env, expression, nil, check)
	if answered.CompileError != "" || answered.ProgramError != "" {
		return answered
	}
	var tree *cel.Ast
	if check {
		tree, _ = env.Compile(expression)
	} else {
		tree, _ = env.Parse(expression)
	}
	program, err := env.Program(tree)
	if err != nil {
		answered.ProgramError = err.Error()
		return answered
	}
	answered.Outcomes = []outcome{run(program, inputs)}
	return answered
}
