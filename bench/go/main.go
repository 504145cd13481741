// Program bench has all components of the benchmark except the proxy itself: `bench upstream`,
// `bench proxy` and the kinds of load, one process each.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	parts := map[string]func([]string) error{
		"upstream":   runUpstream,
		"proxy":      runProxy,
		"get":        repeating("get", (*dialer).small),
		"list":       repeating("list", (*dialer).large),
		"post":       repeating("post", (*dialer).post),
		"mixed":      runMixed,
		"walk":       runWalk,
		"connecting": runConnecting,
		"watches":    runWatches,
		"events":     runEvents,
	}
	if len(os.Args) < 2 || parts[os.Args[1]] == nil {
		fail(errors.New("missing argument: upstream, proxy or a kind of load"))
	}
	if err := parts[os.Args[1]](os.Args[2:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// http1 is the protocol of every hop of the benchmark, because the proxy under test uses it.
func http1() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return protocols
}

// serve listens on a free loopback port, writes the port to a file, and serves over TLS.
func serve(handler http.Handler, certificate, key, portFile string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, Protocols: http1()}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	// A rename, so that the waiting process never reads a partial file.
	if err := os.WriteFile(portFile+".new", []byte(port), 0o600); err != nil {
		return err
	}
	if err := os.Rename(portFile+".new", portFile); err != nil {
		return err
	}
	return server.ServeTLS(listener, certificate, key)
}

// trusting returns the TLS settings of a client that trusts one CA.
func trusting(authorityFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(authorityFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", authorityFile)
	}
	return &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}}, nil
}

// readSecret returns a file's content without its final newline.
func readSecret(file string) (string, error) {
	content, err := os.ReadFile(file)
	return strings.TrimSpace(string(content)), err
}
