// Command fake-kubelet serves the four endpoints that kube-apiserver calls on a node for exec,
// attach, port-forward and logs. Commands really run, on this machine, as the user who started
// it: that is why it listens on the loopback only and asks every caller for a client certificate.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

type options struct {
	certificate, key, clientAuthority, directory, portFile string
}

func parseOptions() options {
	var o options
	flag.StringVar(&o.certificate, "certificate", "", "PEM file of the serving certificate")
	flag.StringVar(&o.key, "key", "", "PEM file of its key")
	flag.StringVar(&o.clientAuthority, "client-authority", "", "PEM file of the authority that signs the API server's client certificate")
	flag.StringVar(&o.directory, "directory", "", "where containers keep their files and logs")
	flag.StringVar(&o.portFile, "port-file", "", "the listening port is written here once connections are accepted")
	flag.Parse()
	return o
}

func main() {
	log.SetFlags(log.Lmicroseconds)
	if err := run(parseOptions()); err != nil {
		log.Fatalf("fake-kubelet: %v", err)
	}
}

func run(o options) error {
	tlsConfig, err := serverTLS(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := announce(o.portFile, listener.Addr().(*net.TCPAddr).Port); err != nil {
		return err
	}

	// Every command runs under this context, so a stopped kubelet leaves no command behind.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{
		Handler:           (&kubelet{directory: o.directory, lifetime: ctx}).handler(),
		TLSConfig:         tlsConfig,
		ReadHeaderTimeout: 10 * time.Second,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func serverTLS(o options) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(o.clientAuthority)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in %s", o.clientAuthority)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// announce writes the port in one step, so that a reader never sees half a number.
func announce(path string, port int) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(temporary, []byte(strconv.Itoa(port)), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
