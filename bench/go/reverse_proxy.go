package main

import (
	"crypto/sha256"
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
)

const idleConnectionsPerHost = 256

// caller is the user of a token.
type caller struct {
	name   string
	groups []string
}

// impersonator is a minimal impersonating proxy. It looks up the token, removes the client's
// credential and identity headers, and impersonates the caller with its own credential. It has no
// authorization, log or metrics, so its cost is that of Go's ReverseProxy alone.
type impersonator struct {
	next          http.Handler
	authorization string
	callers       map[[sha256.Size]byte]caller
}

func runProxy(arguments []string) error {
	flags := flag.NewFlagSet("proxy", flag.ExitOnError)
	certificate := flags.String("certificate", "", "PEM file")
	key := flags.String("key", "", "PEM file")
	portFile := flags.String("port-file", "", "file to write the port to")
	upstream := flags.String("upstream", "", "URL of the API server")
	authority := flags.String("authority", "", "PEM file of the API server's CA")
	ownToken := flags.String("own-token-file", "", "the proxy's own credential at the API server")
	clientToken := flags.String("client-token-file", "", "the only valid client token")
	name := flags.String("caller", "", "the user of that token")
	pooled := flags.Bool("pooled", false, "reuse the buffers that bodies are copied through")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	target, err := url.Parse(*upstream)
	if err != nil {
		return err
	}
	own, err := readSecret(*ownToken)
	if err != nil {
		return err
	}
	good, err := readSecret(*clientToken)
	if err != nil {
		return err
	}
	settings, err := trusting(*authority)
	if err != nil {
		return err
	}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			if peer, _, err := net.SplitHostPort(request.In.RemoteAddr); err == nil {
				request.Out.Header.Set("X-Forwarded-For", peer)
			}
		},
		Transport: &http.Transport{
			TLSClientConfig:     settings,
			MaxIdleConnsPerHost: idleConnectionsPerHost,
			Protocols:           http1(),
		},
		ErrorLog: log.New(os.Stderr, "", 0),
	}
	if *pooled {
		reverse.BufferPool = &bufferPool{}
	}
	handler := &impersonator{
		next:          reverse,
		authorization: "Bearer " + own,
		callers: map[[sha256.Size]byte]caller{
			sha256.Sum256([]byte(good)): {*name, []string{"developers", "system:authenticated"}},
		},
	}
	return serve(handler, *certificate, *key, *portFile)
}

// ServeHTTP forwards only requests with a known token, as its user.
func (i *impersonator) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	header := request.Header
	token, isBearer := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	who, isKnown := i.callers[sha256.Sum256([]byte(token))]
	if !isBearer || !isKnown {
		http.Error(response, "Unauthorized", http.StatusUnauthorized)
		return
	}
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") {
			delete(header, name)
		}
	}
	if request.ContentLength != 0 {
		// Otherwise a response that arrives right after the body may be lost: the transport reads
		// more of the body, which the server has closed meanwhile (golang/go#40747).
		if err := http.NewResponseController(response).EnableFullDuplex(); err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	header.Set("Authorization", i.authorization)
	header.Set("Impersonate-User", who.name)
	header["Impersonate-Group"] = who.groups
	i.next.ServeHTTP(response, request)
}

// bufferPool is a BufferPool based on sync.Pool.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32*1024)
}

func (b *bufferPool) Put(buffer []byte) { b.pool.Put(&buffer) }
