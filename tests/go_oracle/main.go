// Command oracle answers, over a pipe, what kube-apiserver 1.37.1 makes of a request: how
// net/http reads it, which action it is, what the impersonation filter asks and decides.
//
// One JSON line in is a batch, one JSON line out its results, in order. Nothing here decides
// anything: the libraries of the API server do, this program only carries questions to them.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// batchesAhead lets the other side write its next batch while this one is being answered.
const batchesAhead = 4

type batch struct {
	Sequences []sequence `json:"sequences"`
	Quotes    [][]byte   `json:"quotes"`
}

type results struct {
	Sequences [][]*outcome `json:"sequences"`
	Quotes    []text       `json:"quotes"`
}

func main() {
	klog.SetLogger(klog.Logger{}) // the zero logger says nothing: refused requests are the point here
	// The default error handlers sleep up to a millisecond an error, and errors are our daily bread.
	utilruntime.ErrorHandlers = nil
	if err := serve(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func serve(in io.Reader, out io.Writer) error {
	lines := make(chan []byte, batchesAhead)
	failed := make(chan error, 1)
	go readLines(in, lines, failed)
	server := newServer()
	buffered := bufio.NewWriterSize(out, 1<<20)
	for line := range lines {
		encoded, err := answerLine(server, line)
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
	return <-failed
}

func readLines(in io.Reader, lines chan<- []byte, failed chan<- error) {
	defer close(lines)
	reader := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			failed <- nil
			return
		}
		if err != nil {
			failed <- err
			return
		}
		lines <- line
	}
}

func answerLine(server *server, line []byte) ([]byte, error) {
	var asked batch
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, fmt.Errorf("cannot read a batch: %w", err)
	}
	answered := results{Sequences: make([][]*outcome, len(asked.Sequences))}
	for i := range asked.Sequences {
		answered.Sequences[i] = server.play(&asked.Sequences[i])
	}
	for _, quoted := range asked.Quotes {
		answered.Quotes = append(answered.Quotes, text(strconv.Quote(string(quoted))))
	}
	encoded := &bytes.Buffer{}
	encoder := json.NewEncoder(encoded)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(answered)
	return encoded.Bytes(), err
}
