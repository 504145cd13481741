package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	watchTarget      = listTarget + "?watch=true&rate="
	eventBufferBytes = 2 * 1024
	listeningTime    = 200 * time.Millisecond
)

// stream is an open watch, and the state of its events.
type stream struct {
	client *client
	events *bufio.Reader
	next   int
}

// openStreams opens that many watches and reads the first event of each.
func (d *dialer) openStreams(count, rate int) ([]*stream, error) {
	request := d.head("GET", watchTarget+strconv.Itoa(rate), 0)
	var lock sync.Mutex
	var streams []*stream
	_, err := d.openMany(count, eventBufferBytes, func(c *client) error {
		events, err := c.watch(request)
		if err != nil {
			return err
		}
		opened := &stream{client: c, events: events}
		_, err = opened.read()
		lock.Lock()
		defer lock.Unlock()
		streams = append(streams, opened)
		return err
	})
	return streams, err
}

var wantedEvent = sha256.Sum256(object(eventBytes))

// read returns the send time of the next event, which must be in sequence and unchanged.
func (s *stream) read() (time.Time, error) {
	line, err := s.events.ReadSlice('\n')
	if err != nil {
		return time.Time{}, err
	}
	number, sent, content, err := readEvent(line)
	if err == nil && number != s.next {
		err = fmt.Errorf("event %d instead of %d", number, s.next)
	}
	if err == nil && sha256.Sum256(content) != wantedEvent {
		err = errors.New("the event is not the one that was sent")
	}
	s.next++
	return sent, err
}

// runWatches opens idle watches in steps; after each it prints "ready" and waits for a line.
func runWatches(arguments []string) error {
	options := newLoadOptions("watches", 0)
	steps := options.flags.String("steps", "10,1000", "number of open watches at each step")
	d, err := options.dialer(arguments)
	if err != nil {
		return err
	}
	var streams []*stream
	for _, step := range strings.Split(*steps, ",") {
		fmt.Println("ready")
		if !isTold() {
			return errors.New("standard input ended before the next step")
		}
		count, err := strconv.Atoi(step)
		if err != nil {
			return err
		}
		more, err := d.openStreams(count-len(streams), 0)
		if err != nil {
			return err
		}
		streams = append(streams, more...)
	}
	fmt.Println("ready")
	if !isTold() {
		return errors.New("standard input ended before the next step")
	}
	if err := areStillOpen(streams); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report{Requests: len(streams)})
}

// areStillOpen fails if any watch has ended or received data.
func areStillOpen(streams []*stream) error {
	var group sync.WaitGroup
	failures := make([]error, len(streams))
	deadline := time.Now().Add(listeningTime)
	for number, one := range streams {
		group.Go(func() { failures[number] = one.isSilentUntil(deadline) })
	}
	group.Wait()
	return errors.Join(failures...)
}

func (s *stream) isSilentUntil(deadline time.Time) error {
	if err := s.client.connection.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err := s.events.ReadByte()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("a watch ended or received data: %v", err)
}

// runEvents opens watches with many events, and reports their latency.
func runEvents(arguments []string) error {
	options := newLoadOptions("events", 100)
	rate := options.flags.Int("rate", 50, "events a second on each watch")
	d, err := options.dialer(arguments)
	if err != nil {
		return err
	}
	streams, err := d.openStreams(options.connections, *rate)
	if err != nil {
		return err
	}
	return options.turns(func(seconds float64) (report, error) {
		took, err := readAll(streams, seconds)
		return summary(len(took), seconds, took), err
	})
}

// readAll reads events for that long, and returns their latencies.
func readAll(streams []*stream, seconds float64) ([]time.Duration, error) {
	var group sync.WaitGroup
	deadline := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	failures := make([]error, len(streams))
	took := make([][]time.Duration, len(streams))
	for number, one := range streams {
		group.Go(func() {
			for now := time.Now(); now.Before(deadline); {
				sent, err := one.read()
				if err != nil {
					failures[number] = err
					return
				}
				now = time.Now()
				took[number] = append(took[number], now.Sub(sent))
			}
		})
	}
	group.Wait()
	return slices.Concat(took...), errors.Join(failures...)
}

// The format of an event: its number, its send time, and then the object.
const eventStart, eventStamp, eventObject = `{"type":"MODIFIED","number":`, `,"sent":`, `,"object":`

func writeEvent(buffer []byte, number int, content []byte) []byte {
	buffer = append(buffer, eventStart...)
	buffer = strconv.AppendInt(buffer, int64(number), 10)
	buffer = append(buffer, eventStamp...)
	buffer = strconv.AppendInt(buffer, time.Now().UnixNano(), 10)
	buffer = append(buffer, eventObject...)
	return append(append(buffer, content...), "}\n"...)
}

func readEvent(line []byte) (number int, sent time.Time, content []byte, err error) {
	first, rest, isEvent := bytes.Cut(bytes.TrimPrefix(line, []byte(eventStart)), []byte(eventStamp))
	stamp, content, hasObject := bytes.Cut(rest, []byte(eventObject))
	if !isEvent || !hasObject {
		return 0, sent, nil, fmt.Errorf("not an event: %s", line)
	}
	if number, err = strconv.Atoi(string(first)); err != nil {
		return 0, sent, nil, err
	}
	nanoseconds, err := strconv.ParseInt(string(stamp), 10, 64)
	return number, time.Unix(0, nanoseconds), bytes.TrimSuffix(content, []byte("}\n")), err
}
