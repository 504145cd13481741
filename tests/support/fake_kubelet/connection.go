package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
)

// watchedWriter calls ended once its connection, taken over for streaming, has nothing more to
// read. net/http stops watching such a connection, so a command whose client left would otherwise
// run on; tests look at exactly that.
type watchedWriter struct {
	http.ResponseWriter
	ended context.CancelFunc
}

func (w *watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// Bytes that arrived together with the request's head are in the old buffer only.
	early, err := buffered.Peek(buffered.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	watched := &watchedReader{io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn), w.ended}
	return conn, bufio.NewReadWriter(bufio.NewReader(watched), buffered.Writer), nil
}

type watchedReader struct {
	io.Reader
	ended context.CancelFunc
}

func (r *watchedReader) Read(buffer []byte) (int, error) {
	count, err := r.Reader.Read(buffer)
	if err != nil {
		r.ended()
	}
	return count, err
}
