// Command algebra answers, over a pipe, what the published decision algebra of conditional
// authorization makes of a tree of decisions: how it is built, evaluated in part, and evaluated by a
// chain of authorizers.
//
// One JSON line in is a batch of cases, one JSON line out their results, in order. The program only
// converts; `k8s.io/apiserver/pkg/authorization` decides.
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
	Cases []*node `json:"cases"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func serve(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriterSize(out, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		encoded, err := answerLine(line)
		if err != nil {
			return err
		}
		if _, err := writer.Write(encoded); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func answerLine(line []byte) ([]byte, error) {
	var asked batch
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, fmt.Errorf("cannot read a batch: %w", err)
	}
	answered := make([]*result, len(asked.Cases))
	for i, root := range asked.Cases {
		answered[i] = play(root)
	}
	encoded := &bytes.Buffer{}
	encoder := json.NewEncoder(encoded)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answered)
	return encoded.Bytes(), err
}
