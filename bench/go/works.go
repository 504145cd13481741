package main

import "errors"

const (
	smallTarget = "/api/v1/namespaces/default/configmaps/settings"
	listTarget  = "/api/v1/namespaces/default/configmaps"

	clientBufferBytes = 16 * 1024
	smallPerLarge     = 8
)

func (d *dialer) small() want {
	return d.wantBody("GET", smallTarget, nil, object(smallBytes), "200")
}

func (d *dialer) large() want { return d.wantBody("GET", listTarget, nil, list(), "200") }

func (d *dialer) post() want {
	sent := object(postedBytes)
	return d.wantBody("POST", listTarget, sent, sent, "201")
}

// repeating is the load of clients that repeat one request on a persistent connection.
func repeating(name string, choose func(*dialer) want) func([]string) error {
	return func(arguments []string) error {
		options := newLoadOptions(name, 64)
		idle := options.flags.Int("idle", 0, "other connections that stay open after one request")
		d, err := options.dialer(arguments)
		if err != nil {
			return err
		}
		wanted := choose(d)
		ask := func(c *client) error { return c.exchange(&wanted) }
		clients, err := d.openMany(options.connections+*idle, clientBufferBytes, ask)
		if err != nil {
			return err
		}
		return options.work(workersOf(clients[:options.connections], func(c *client, w *worker) error {
			return w.timed(func() error { return c.exchange(&wanted) })
		}))
	}
}

// runMixed alternates eight small objects and a large one on each client, so the mixture is the same
// for fast and slow contestants. The latency is that of the small ones.
func runMixed(arguments []string) error {
	options := newLoadOptions("mixed", 16)
	d, err := options.dialer(arguments)
	if err != nil {
		return err
	}
	small, large := d.small(), d.large()
	ask := func(c *client) error { return c.exchange(&small) }
	clients, err := d.openMany(options.connections, clientBufferBytes, ask)
	if err != nil {
		return err
	}
	return options.work(workersOf(clients, func(c *client, w *worker) error {
		for range smallPerLarge {
			if err := w.timed(func() error { return c.exchange(&small) }); err != nil {
				return err
			}
		}
		w.requests++
		return c.exchange(&large)
	}))
}

// runConnecting opens a new connection, with a full TLS handshake, for every request.
func runConnecting(arguments []string) error {
	options := newLoadOptions("connecting", 8)
	d, err := options.dialer(arguments)
	if err != nil {
		return err
	}
	wanted := d.small()
	workers := make([]*worker, options.connections)
	for number := range workers {
		workers[number] = &worker{step: func(w *worker) error {
			return w.timed(func() error {
				c, err := d.open(clientBufferBytes)
				if err != nil {
					return err
				}
				return errors.Join(c.exchange(&wanted), c.connection.Close())
			})
		}}
	}
	return options.work(workers)
}

func workersOf(clients []*client, step func(*client, *worker) error) []*worker {
	workers := make([]*worker, len(clients))
	for number, one := range clients {
		workers[number] = &worker{step: func(w *worker) error { return step(one, w) }}
	}
	return workers
}
