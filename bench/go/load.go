package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// openedAtATime is the number of connections that are opened concurrently.
const openedAtATime = 16

// report is the result of one turn, as one line of JSON.
type report struct {
	Requests        int     `json:"requests"`
	Seconds         float64 `json:"seconds"`
	P50Microseconds float64 `json:"p50Microseconds"`
	P99Microseconds float64 `json:"p99Microseconds"`
}

// loadOptions are the options of every kind of load.
type loadOptions struct {
	flags       *flag.FlagSet
	address     string
	authority   string
	tokenFile   string
	wanted      string
	plain       bool
	connections int
	seconds     float64
	warmUp      float64
}

func newLoadOptions(name string, connections int) *loadOptions {
	o := &loadOptions{flags: flag.NewFlagSet(name, flag.ExitOnError)}
	o.flags.StringVar(&o.address, "address", "", "host:port of the proxy")
	o.flags.StringVar(&o.authority, "authority", "", "PEM file of the CA behind the proxy")
	o.flags.StringVar(&o.tokenFile, "token-file", "", "credential to show; none if empty")
	o.flags.StringVar(&o.wanted, "as", "", "whom to ask to be; nobody if empty")
	o.flags.BoolVar(&o.plain, "plain", false, "speak HTTP without TLS")
	o.flags.IntVar(&o.connections, "connections", connections, "how many clients")
	o.flags.Float64Var(&o.seconds, "seconds", 5, "how long to measure")
	o.flags.Float64Var(&o.warmUp, "warm-up-seconds", 0.2, "how long to send before that")
	return o
}

// dialer opens connections to the proxy, and has the common head of requests.
type dialer struct {
	options  *loadOptions
	settings *tls.Config
	token    string
}

// dialer parses the options and returns the dialer for them.
func (o *loadOptions) dialer(arguments []string) (*dialer, error) {
	if err := o.flags.Parse(arguments); err != nil {
		return nil, err
	}
	settings, err := trusting(o.authority)
	if err != nil || o.tokenFile == "" {
		return &dialer{o, settings, ""}, err
	}
	token, err := readSecret(o.tokenFile)
	return &dialer{o, settings, token}, err
}

func (d *dialer) dial() (net.Conn, error) {
	if d.options.plain {
		return net.Dial("tcp", d.options.address)
	}
	return tls.Dial("tcp", d.options.address, d.settings)
}

// open returns a client on a new connection.
func (d *dialer) open(bufferBytes int) (*client, error) {
	connection, err := d.dial()
	if err != nil {
		return nil, err
	}
	return &client{connection: connection, reader: bufio.NewReaderSize(connection, bufferBytes)}, nil
}

// openMany opens that many clients, with bounded concurrency, and prepares each.
func (d *dialer) openMany(count, bufferBytes int, prepare func(*client) error) ([]*client, error) {
	clients, failures := make([]*client, count), make([]error, count)
	var group sync.WaitGroup
	places := make(chan struct{}, openedAtATime)
	for number := range clients {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if clients[number], failures[number] = d.open(bufferBytes); failures[number] == nil {
				failures[number] = prepare(clients[number])
			}
		})
	}
	group.Wait()
	return clients, errors.Join(failures...)
}

// want is a request and its expected response.
type want struct {
	request []byte
	status  string
	digest  [sha256.Size]byte
}

// wantBody returns a request with its expected response. The body is generated here by the same code
// as in the upstream, so the program in between cannot influence the expectation.
func (d *dialer) wantBody(method, target string, sent, body []byte, status string) want {
	return want{
		append(d.head(method, target, len(sent)), sent...),
		"HTTP/1.1 " + status + " ",
		sha256.Sum256(body),
	}
}

// worker is one client's work, in steps; each returns the duration that counts for latency.
type worker struct {
	step     func(*worker) error
	requests int
	took     []time.Duration
}

func (w *worker) timed(exchange func() error) error {
	before := time.Now()
	if err := exchange(); err != nil {
		return err
	}
	w.took = append(w.took, time.Since(before))
	w.requests++
	return nil
}

// turns prints "ready" and runs turns until its input ends. Each starts with a line on standard
// input: it warms up, prints "ready", waits for another line, sends for the given time, and reports.
func (o *loadOptions) turns(send func(seconds float64) (report, error)) error {
	fmt.Println("ready")
	for isTold() {
		if _, err := send(o.warmUp); err != nil {
			return err
		}
		fmt.Println("ready")
		if !isTold() {
			return errors.New("standard input ended before the turn was started")
		}
		told, err := send(o.seconds)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
			return err
		}
	}
	return nil
}

// work runs turns of such workers.
func (o *loadOptions) work(workers []*worker) error {
	return o.turns(func(seconds float64) (report, error) { return workFor(workers, seconds) })
}

// workFor runs all workers for that long.
func workFor(workers []*worker, seconds float64) (report, error) {
	seconds, err := workAll(workers, seconds)
	requests, took := 0, []time.Duration{}
	for _, one := range workers {
		requests += one.requests
		took = append(took, one.took...)
	}
	return summary(requests, seconds, took), err
}

// workAll runs all workers for that long, and returns the actual duration.
func workAll(workers []*worker, seconds float64) (float64, error) {
	var group sync.WaitGroup
	failures := make([]error, len(workers))
	started := time.Now()
	deadline := started.Add(time.Duration(seconds * float64(time.Second)))
	for number, one := range workers {
		one.requests, one.took = 0, one.took[:0]
		group.Go(func() {
			// At least once, so that everything is warmed up however short the time is.
			for failures[number] = one.step(one); failures[number] == nil && time.Now().Before(deadline); {
				failures[number] = one.step(one)
			}
		})
	}
	group.Wait()
	return time.Since(started).Seconds(), errors.Join(failures...)
}

var standardInput = bufio.NewReader(os.Stdin)

// isTold waits for a line on standard input; false if the input has ended.
func isTold() bool {
	_, err := standardInput.ReadString('\n')
	return err == nil
}

func summary(requests int, seconds float64, took []time.Duration) report {
	slices.Sort(took)
	return report{requests, seconds, percentile(took, 0.50), percentile(took, 0.99)}
}

func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := min(len(sorted)-1, int(share*float64(len(sorted))))
	return float64(sorted[place]) / float64(time.Microsecond)
}
