package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// walker requests many names over one connection, each with its own head. Every name that is new to
// the proxy needs a new decision. All of them have the same body.
type walker struct {
	client        *client
	wanted        want
	before, after []byte
	first, names  int
	place, step   int
}

// runWalk connects, requests every name once, or the target itself if there are no names, and prints
// "ready". Then, for every line on standard input, it requests the names in rotation for the number
// of seconds in the line, and reports the result.
func runWalk(arguments []string) error {
	options := newLoadOptions("walk", 64)
	target := options.flags.String("target", smallTarget, "path to get")
	digest := options.flags.String("body-sha256", "", "digest of the body; if empty, that of the default object")
	groups := options.flags.Int("groups", 0, "how many groups to ask for beside the user")
	first := options.flags.Int("first", 0, "number of the first name")
	names := options.flags.Int("names", 0, "how many names; 0: only the target itself")
	d, err := options.dialer(arguments)
	if err != nil {
		return err
	}
	clients, err := d.openMany(options.connections, clientBufferBytes, func(*client) error { return nil })
	if err != nil {
		return err
	}
	wanted := d.wantBody("GET", *target, nil, object(smallBytes), "200")
	if *digest != "" {
		if _, err := hex.Decode(wanted.digest[:], []byte(*digest)); err != nil || len(*digest) != 2*sha256.Size {
			return errors.New("not a SHA-256: " + *digest)
		}
	}
	wanted.request = withGroups(wanted.request, *groups)
	before, after, _ := strings.Cut(string(wanted.request), *target)
	walkers := make([]*walker, len(clients))
	for number, one := range clients {
		walkers[number] = &walker{
			one, wanted, []byte(before + *target + "-"), []byte(after), *first, *names, number, len(clients),
		}
	}
	if err := goOnce(walkers); err != nil {
		return err
	}
	fmt.Println("ready")
	return goOnDemand(walkers)
}

// withGroups adds that many groups to the wanted user of a head.
func withGroups(head []byte, groups int) []byte {
	lines := strings.TrimSuffix(string(head), "\r\n")
	for number := range groups {
		lines += fmt.Sprintf("Impersonate-Group: group-%d\r\n", number)
	}
	return []byte(lines + "\r\n")
}

// goOnce requests every name once, spread over all walkers, with at least one for each.
func goOnce(walkers []*walker) error {
	var group sync.WaitGroup
	failures := make([]error, len(walkers))
	for number, one := range walkers {
		group.Go(func() {
			for place := one.place; place < max(one.names, len(walkers)) && failures[number] == nil; place += one.step {
				failures[number] = one.ask(place)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// goOnDemand runs a measurement for each line of input, until it ends.
func goOnDemand(walkers []*walker) error {
	workers := make([]*worker, len(walkers))
	for number, one := range walkers {
		workers[number] = &worker{step: func(w *worker) error { return w.timed(one.next) }}
	}
	for turns := bufio.NewScanner(os.Stdin); turns.Scan(); {
		seconds, err := strconv.ParseFloat(turns.Text(), 64)
		if err != nil {
			return err
		}
		told, err := workFor(workers, seconds)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) next() error {
	if w.names > 0 {
		w.place = (w.place + w.step) % w.names
	}
	return w.ask(w.place)
}

// ask requests the name at an index.
func (w *walker) ask(place int) error {
	if w.names > 0 {
		number := strconv.Itoa(w.first + place%w.names)
		w.wanted.request = slices.Concat(w.before, []byte(number), w.after)
	}
	return w.client.exchange(&w.wanted)
}
