// Command celoracle answers, over a pipe, what the CEL environment of Kubernetes 1.37 makes of an
// expression: whether it compiles, what it evaluates to and at which cost.
//
// One JSON line in is a batch, one JSON line out its answers, in order. Nothing here decides
// anything: the libraries of the API server and cel-go do.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
)

type batch struct {
	// Questions are expressions with the inputs to evaluate each for.
	Questions []question `json:"questions"`
	// Specification is the directory of the specification's tests: answers with all of them.
	Specification string `json:"specification"`
	// Declarations asks for every function of the environment.
	Declarations bool `json:"declarations"`
}

type answers struct {
	Answers      []answer      `json:"answers"`
	Tests        []specTest    `json:"tests,omitempty"`
	Declarations []declaration `json:"declarations,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func serve(in io.Reader, out io.Writer) error {
	environments, err := newEnvironments()
	if err != nil {
		return err
	}
	reader := bufio.NewReaderSize(in, 1<<20)
	buffered := bufio.NewWriterSize(out, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		encoded, err := answerLine(environments, line)
		if err != nil {
			return err
		}
		if _, err := buffered.Write(encoded); err != nil {
			return err
		}
		if err := buffered.Flush(); err != nil {
			return err
		}
	}
}

func answerLine(environments *environments, line []byte) ([]byte, error) {
	var asked batch
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&asked); err != nil {
		return nil, fmt.Errorf("cannot read a batch: %w", err)
	}
	answered := answers{Answers: make([]answer, len(asked.Questions))}
	for i := range asked.Questions {
		answered.Answers[i] = environments.answer(&asked.Questions[i])
	}
	if asked.Specification != "" {
		tests, err := specification(environments, asked.Specification)
		if err != nil {
			return nil, err
		}
		answered.Tests = tests
	}
	if asked.Declarations {
		answered.Declarations = environments.declarations()
	}
	encoded := &bytes.Buffer{}
	encoder := json.NewEncoder(encoded)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answered)
	return encoded.Bytes(), err
}
