// Reads PromQL as Prometheus reads it.
//
//	selectors  standard input: a JSON list of expressions.
//	           Standard output, for each: its selectors, the labels it groups by, or why it is none.
//	range      standard input: series, queries, and from when to when in which steps.
//	           Standard output: for each query the series that result.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

type matcher struct {
	Name  string `json:"name"`
	Op    string `json:"op"`
	Value string `json:"value"`
}

type expression struct {
	Error     string      `json:"error"`
	Selectors [][]matcher `json:"selectors"`
	Grouping  []string    `json:"grouping"`
}

type series struct {
	Labels  map[string]string `json:"labels"`
	Samples [][2]float64      `json:"samples"` // seconds since 1970, value
}

type question struct {
	Series  []series `json:"series"`
	Queries []string `json:"queries"`
	Start   float64  `json:"start"`
	End     float64  `json:"end"`
	Step    float64  `json:"step"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: %s selectors|range", os.Args[0])
	}
	var answer any
	var err error
	switch os.Args[1] {
	case "selectors":
		answer, err = readAll()
	case "range":
		answer, err = evaluate()
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func readAll() ([]expression, error) {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		return nil, err
	}
	found := make([]expression, 0, len(texts))
	for _, text := range texts {
		found = append(found, read(text))
	}
	return found, nil
}

func read(text string) expression {
	result := expression{Selectors: [][]matcher{}, Grouping: []string{}}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch one := node.(type) {
		case *parser.VectorSelector:
			matchers := []matcher{}
			for _, m := range one.LabelMatchers {
				matchers = append(matchers, matcher{m.Name, m.Type.String(), m.Value})
			}
			result.Selectors = append(result.Selectors, matchers)
		case *parser.AggregateExpr:
			result.Grouping = append(result.Grouping, one.Grouping...)
		case *parser.BinaryExpr:
			if one.VectorMatching != nil {
				result.Grouping = append(result.Grouping, one.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	return result
}

func evaluate() ([][]series, error) {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "understudy-promql-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	quiet := slog.New(slog.DiscardHandler)
	database, err := tsdb.Open(directory, quiet, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	defer database.Close()
	if err := store(database, asked.Series); err != nil {
		return nil, err
	}
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: quiet, MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 10 * time.Second,
	})
	answers := make([][]series, 0, len(asked.Queries))
	for _, text := range asked.Queries {
		answer, err := ask(engine, database, text, asked)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

func store(database *tsdb.DB, all []series) error {
	appender := database.Appender(context.Background())
	for _, one := range all {
		for _, sample := range one.Samples {
			at := int64(sample[0] * 1000)
			if _, err := appender.Append(0, labels.FromMap(one.Labels), at, sample[1]); err != nil {
				return err
			}
		}
	}
	return appender.Commit()
}

func ask(engine *promql.Engine, database *tsdb.DB, text string, asked question) ([]series, error) {
	query, err := engine.NewRangeQuery(
		context.Background(), database, nil, text,
		instant(asked.Start), instant(asked.End), time.Duration(asked.Step*float64(time.Second)),
	)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	matrix, err := query.Exec(context.Background()).Matrix()
	if err != nil {
		return nil, err
	}
	found := make([]series, 0, len(matrix))
	for _, one := range matrix {
		samples := make([][2]float64, 0, len(one.Floats))
		for _, point := range one.Floats {
			// Quantiles of nothing are no number, and JSON has no word for that.
			if point.F == point.F {
				samples = append(samples, [2]float64{float64(point.T) / 1000, point.F})
			}
		}
		found = append(found, series{Labels: one.Metric.Map(), Samples: samples})
	}
	return found, nil
}

func instant(seconds float64) time.Time {
	return time.UnixMilli(int64(seconds * 1000))
}
