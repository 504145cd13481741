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

// walker asks for many names over one connection, each with a head of its own: every name that the
// proxy has not seen yet is a decision that it has to make. All of them have the same body.
type walker struct {
	client        *client
	wanted        want
	before, after []byte
	first, names  int
	place, step   int
}

// runWalk connects and asks for every name once, or for the target itself if there are no names,
// and says "ready". Then, for every line on standard input, it goes round and round over the names
// for as many seconds as the line says, and tells what came of it.
func runWalk(arguments []string) error {
	options := newLoadOptions("walk", 64)
	target := options.flags.String("target", smallTarget, "what to get")
	digest := options.flags.String("body-sha256", "", "of its body; if empty, the usual object's")
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

// withGroups adds that many groups to the identity that a head asks for.
func withGroups(head []byte, groups int) []byte {
	lines := strings.TrimSuffix(string(head), "\r\n")
	for number := range groups {
		lines += fmt.Sprintf("Impersonate-Group: group-%d\r\n", number)
	}
	return []byte(lines + "\r\n")
}

// goOnce lets all walkers together ask for every name, and each of them for one at least.
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

// goOnDemand measures whenever it is told to, until its input ends.
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

// ask asks for the name at a place of the walk.
func (w *walker) ask(place int) error {
	if w.names > 0 {
		number := strconv.Itoa(w.first + place%w.names)
		w.wanted.request = slices.Concat(w.before, []byte(number), w.after)
	}
	return w.client.exchange(&w.wanted)
}
