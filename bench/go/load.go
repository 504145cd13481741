package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// report is what one run tells, as one line of JSON.
type report struct {
	Requests        int     `json:"requests"`
	Seconds         float64 `json:"seconds"`
	P50Microseconds float64 `json:"p50Microseconds"`
	P99Microseconds float64 `json:"p99Microseconds"`
	BodySHA256      string  `json:"bodySHA256"`
}

// client is one connection that sends the same request again and again. Its loop is its own and
// minimal, so that the load costs the machine as little as it can.
type client struct {
	connection *tls.Conn
	reader     *bufio.Reader
	request    []byte
	want       []byte
	body       []byte
	took       []time.Duration
}

// runLoad connects, warms up, says "ready", waits for a line on standard input, and then sends
// requests on all connections for the given time. Any answer but the expected one ends it.
func runLoad(arguments []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	address := flags.String("address", "", "host and port of the server")
	authority := flags.String("authority", "", "PEM file of the CA behind the server")
	token := flags.String("token-file", "", "the client's credential")
	target := flags.String("target", "/api/v1/namespaces/default/configmaps/settings", "what to get")
	wanted := flags.String("as", "", "whom to impersonate, if anybody")
	connections := flags.Int("connections", 64, "how many clients")
	seconds := flags.Float64("seconds", 5, "how long to measure")
	warmUp := flags.Float64("warm-up-seconds", 1, "how long to send before that")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	secret, err := readSecret(*token)
	if err != nil {
		return err
	}
	settings, err := trusting(*authority)
	if err != nil {
		return err
	}
	request := requestHead(*target, *address, secret, *wanted)
	clients, err := connectAll(*connections, *address, settings, request)
	if err != nil {
		return err
	}
	if _, err := sendAll(clients, *warmUp); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody said when to start: %w", err)
	}
	elapsed, err := sendAll(clients, *seconds)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(summary(clients, elapsed))
}

// requestHead returns a GET with the headers that kubectl sends.
func requestHead(target, host, token, wanted string) []byte {
	lines := []string{
		"GET " + target + " HTTP/1.1",
		"Host: " + host,
		"User-Agent: kubectl/v1.37.1 (linux/amd64) kubernetes/0000000",
		"Accept: application/json",
		"Authorization: Bearer " + token,
		"Kubectl-Command: kubectl get",
		"Kubectl-Session: 11111111-2222-3333-4444-555555555555",
	}
	if wanted != "" {
		lines = append(lines, "Impersonate-User: "+wanted)
	}
	return []byte(strings.Join(append(lines, "Accept-Encoding: gzip", "", ""), "\r\n"))
}

func connectAll(count int, address string, settings *tls.Config, request []byte) ([]*client, error) {
	clients := make([]*client, count)
	for number := range clients {
		connection, err := tls.Dial("tcp", address, settings)
		if err != nil {
			return nil, err
		}
		clients[number] = &client{
			connection: connection,
			reader:     bufio.NewReaderSize(connection, 16*1024),
			request:    request,
		}
	}
	// The first answer sets the standard for all others.
	if err := clients[0].exchange(); err != nil {
		return nil, err
	}
	for _, other := range clients {
		other.want = slices.Clone(clients[0].body)
	}
	return clients, nil
}

// sendAll lets every client send for that long, and returns how long it took in truth.
func sendAll(clients []*client, seconds float64) (float64, error) {
	var group sync.WaitGroup
	failures := make([]error, len(clients))
	started := time.Now()
	deadline := started.Add(time.Duration(seconds * float64(time.Second)))
	for number, one := range clients {
		group.Go(func() { failures[number] = one.sendUntil(deadline) })
	}
	group.Wait()
	return time.Since(started).Seconds(), errors.Join(failures...)
}

func (c *client) sendUntil(deadline time.Time) error {
	c.took = c.took[:0]
	for before := time.Now(); before.Before(deadline); {
		if err := c.exchange(); err != nil {
			return err
		}
		after := time.Now()
		c.took = append(c.took, after.Sub(before))
		before = after
	}
	return nil
}

// exchange sends one request and reads its answer, which must be a 200 with the expected body.
func (c *client) exchange() error {
	if _, err := c.connection.Write(c.request); err != nil {
		return err
	}
	length, err := c.readHead()
	if err != nil {
		return err
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.reader, c.body); err != nil {
		return err
	}
	if c.want != nil && !bytes.Equal(c.body, c.want) {
		return errors.New("the body is not the one that came first")
	}
	return nil
}

func (c *client) readHead() (int, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return 0, fmt.Errorf("not a 200: %s", bytes.TrimSpace(line))
	}
	length := -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		name, value, isHeader := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if !isHeader {
			break
		}
		if bytes.EqualFold(name, []byte("Content-Length")) {
			length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errors.New("an answer without Content-Length")
	}
	return length, nil
}

func summary(clients []*client, seconds float64) report {
	var all []time.Duration
	for _, one := range clients {
		all = append(all, one.took...)
	}
	slices.Sort(all)
	digest := sha256.Sum256(clients[0].want)
	return report{
		Requests:        len(all),
		Seconds:         seconds,
		P50Microseconds: percentile(all, 0.50),
		P99Microseconds: percentile(all, 0.99),
		BodySHA256:      hex.EncodeToString(digest[:]),
	}
}

func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := min(len(sorted)-1, int(share*float64(len(sorted))))
	return float64(sorted[place]) / float64(time.Microsecond)
}
