package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// walker is one connection that asks for many names, each with a head of its own: every name that
// the proxy has not seen yet is a decision that it has to make. All names have one object behind
// them, so every body must be the same.
type walker struct {
	*client
	before, after []byte
	next          int
}

// walk says which names are asked for, and which of them by which connection.
type walk struct {
	first, names, step int
}

// runWalk connects, asks for every name once, and says "ready". Then, for every line on standard
// input, it goes round and round over the names for the given time and tells what came of it.
func runWalk(arguments []string) error {
	flags := flag.NewFlagSet("walk", flag.ExitOnError)
	address := flags.String("address", "", "host and port of the server")
	authority := flags.String("authority", "", "PEM file of the CA behind the server")
	token := flags.String("token-file", "", "the client's credential")
	target := flags.String("target", "/api/v1/namespaces/default/configmaps/settings", "what to get")
	wanted := flags.String("as", "", "whom to impersonate, if anybody")
	groups := flags.Int("groups", 0, "how many groups to ask for with that")
	connections := flags.Int("connections", 64, "how many clients")
	seconds := flags.Float64("seconds", 1, "how long to go at a time")
	first := flags.Int("first", 0, "the number of the first name")
	names := flags.Int("names", 0, "how many names; 0: only the target itself")
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
	request := withGroups(requestHead(*target, *address, secret, *wanted), *groups)
	clients, err := connectAll(*connections, *address, settings, request)
	if err != nil {
		return err
	}
	way := walk{first: *first, names: *names, step: len(clients)}
	walkers := walkersOf(clients, *target)
	if err := each(walkers, func(one *walker) error { return one.goOnce(way) }); err != nil {
		return err
	}
	fmt.Println("ready")
	turns := bufio.NewScanner(os.Stdin)
	for turns.Scan() {
		started := time.Now()
		deadline := started.Add(time.Duration(*seconds * float64(time.Second)))
		if err := each(walkers, func(one *walker) error { return one.goUntil(deadline, way) }); err != nil {
			return err
		}
		told := summary(clients, time.Since(started).Seconds())
		if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
			return err
		}
	}
	return turns.Err()
}

// withGroups adds that many groups to the identity that a head asks for.
func withGroups(head []byte, groups int) []byte {
	lines := strings.TrimSuffix(string(head), "\r\n")
	for number := range groups {
		lines += fmt.Sprintf("Impersonate-Group: group-%d\r\n", number)
	}
	return []byte(lines + "\r\n")
}

func walkersOf(clients []*client, target string) []*walker {
	walkers := make([]*walker, len(clients))
	for number, one := range clients {
		before, after, _ := strings.Cut(string(one.request), target)
		walkers[number] = &walker{
			client: one,
			before: []byte(before + target + "-"),
			after:  []byte(after),
			next:   number,
		}
	}
	return walkers
}

// each lets all walkers go at the same time.
func each(walkers []*walker, goes func(*walker) error) error {
	var group sync.WaitGroup
	failures := make([]error, len(walkers))
	for number, one := range walkers {
		group.Go(func() { failures[number] = goes(one) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// goOnce asks for this walker's share of the names, or for the one target there is.
func (w *walker) goOnce(way walk) error {
	if way.names == 0 {
		return w.exchange()
	}
	for number := w.next; number < way.names; number += way.step {
		w.turnTo(way.first + number)
		if err := w.exchange(); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) goUntil(deadline time.Time, way walk) error {
	w.took = w.took[:0]
	for before := time.Now(); before.Before(deadline); {
		if way.names > 0 {
			w.turnTo(way.first + w.next)
			w.next = (w.next + way.step) % way.names
		}
		if err := w.exchange(); err != nil {
			return err
		}
		after := time.Now()
		w.took = append(w.took, after.Sub(before))
		before = after
	}
	return nil
}

func (w *walker) turnTo(number int) {
	w.request = slices.Concat(w.before, strconv.AppendInt(nil, int64(number), 10), w.after)
}
