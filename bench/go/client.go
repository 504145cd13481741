package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
)

// client is one connection. It has a minimal HTTP implementation, so that the load generator uses
// little CPU.
type client struct {
	connection net.Conn
	reader     *bufio.Reader
	body       []byte
}

// head returns a request's head with the headers that kubectl sends.
func (d *dialer) head(method, target string, bodyBytes int) []byte {
	lines := []string{
		method + " " + target + " HTTP/1.1",
		"Host: " + d.options.address,
		"User-Agent: kubectl/v1.37.1 (linux/amd64) kubernetes/0000000",
		"Accept: application/json",
		"Kubectl-Command: kubectl get",
		"Kubectl-Session: 11111111-2222-3333-4444-555555555555",
	}
	if d.token != "" {
		lines = append(lines, "Authorization: Bearer "+d.token)
	}
	if d.options.wanted != "" {
		lines = append(lines, "Impersonate-User: "+d.options.wanted)
	}
	if bodyBytes > 0 {
		lines = append(lines,
			"Content-Type: application/json", "Content-Length: "+strconv.Itoa(bodyBytes))
	}
	return []byte(strings.Join(append(lines, "Accept-Encoding: gzip", "", ""), "\r\n"))
}

// exchange sends one request and reads its response; status and body must be as expected.
func (c *client) exchange(w *want) error {
	if _, err := c.connection.Write(w.request); err != nil {
		return err
	}
	length, err := c.readHead(w.status)
	if err != nil {
		return err
	}
	if err := c.readBody(length); err != nil {
		return err
	}
	if sha256.Sum256(c.body) != w.digest {
		return errors.New("the body is not the expected one")
	}
	return nil
}

func (c *client) readBody(length int) error {
	if length >= 0 {
		c.body = slices.Grow(c.body[:0], length)[:length]
		_, err := io.ReadFull(c.reader, c.body)
		return err
	}
	c.body = c.body[:0]
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return err
		}
		before := len(c.body)
		c.body = slices.Grow(c.body, int(size))[:before+int(size)]
		if _, err := io.ReadFull(c.reader, c.body[before:]); err != nil {
			return err
		}
		if line, err = c.reader.ReadSlice('\n'); err != nil || len(line) > 2 {
			return fmt.Errorf("a chunk without its terminator: %w", err)
		}
		if size == 0 {
			return nil
		}
	}
}

// readHead returns the length of the body that follows; -1 if it is chunked.
func (c *client) readHead(status string) (int, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte(status)) {
		return 0, fmt.Errorf("not %q: %s", status, bytes.TrimSpace(line))
	}
	const unknown = -2
	length := unknown
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		name, value, isHeader := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if !isHeader {
			break
		}
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1
		}
	}
	if length == unknown {
		return 0, errors.New("a response without a length")
	}
	return length, nil
}

// watch sends a watch request, and returns the body of its endless response.
func (c *client) watch(request []byte) (*bufio.Reader, error) {
	if _, err := c.connection.Write(request); err != nil {
		return nil, err
	}
	length, err := c.readHead("HTTP/1.1 200 ")
	if err == nil && length >= 0 {
		err = errors.New("a watch with a finite length")
	}
	return bufio.NewReaderSize(httputil.NewChunkedReader(c.reader), eventBufferBytes), err
}
