package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleTimeout           = 4 * time.Hour
	streamCreationTimeout = 30 * time.Second
)

// kubelet answers for every pod that the API server believes to be on this node.
type kubelet struct {
	directory string
	lifetime  context.Context
}

func (k *kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.portForward)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	return mux
}

// container finds the container a request names, and gives it a directory when it is new.
func (k *kubelet) container(r *http.Request) (container, error) {
	name := r.PathValue("namespace") + "_" + r.PathValue("pod") + "_" + r.PathValue("container")
	// The API server validates all three as DNS names, so this never leaves our directory.
	c := container{directory: filepath.Join(k.directory, name), logFile: filepath.Join(k.directory, name+".log")}
	return c, os.MkdirAll(c.directory, 0o700)
}

func (k *kubelet) exec(w http.ResponseWriter, r *http.Request) {
	k.withContainer(w, r, func(w http.ResponseWriter, r *http.Request, c container, streams *remotecommand.Options) {
		remotecommand.ServeExec(w, r, c, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"],
			streams, idleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

func (k *kubelet) attach(w http.ResponseWriter, r *http.Request) {
	k.withContainer(w, r, func(w http.ResponseWriter, r *http.Request, c container, streams *remotecommand.Options) {
		remotecommand.ServeAttach(w, r, c, r.PathValue("pod"), "", r.PathValue("container"),
			streams, idleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

// withContainer serves a container's streams for as long as the client and the kubelet are there.
func (k *kubelet) withContainer(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request, container, *remotecommand.Options)) {
	c, err := k.container(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(k.lifetime, cancel)()
	serve(&watchedWriter{w, cancel}, r.WithContext(ctx), c, streams)
}

func (k *kubelet) portForward(w http.ResponseWriter, r *http.Request) {
	ports, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{}, r.PathValue("pod"), "", ports,
		idleTimeout, streamCreationTimeout, portforward.SupportedProtocols)
}

func (k *kubelet) logs(w http.ResponseWriter, r *http.Request) {
	c, err := k.container(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	query := r.URL.Query()
	wanted := logRequest{follow: query.Get("follow") == "true", tailLines: -1}
	if text := query.Get("tailLines"); text != "" {
		if wanted.tailLines, err = strconv.Atoi(text); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	// The head goes out now: a follower of a silent container must not wait for its first line.
	_ = http.NewResponseController(w).Flush()
	_ = c.copyLog(r.Context(), flushing{w}, wanted)
}

// flushing sends every piece at once, as a follower expects.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(piece []byte) (int, error) {
	written, err := f.ResponseWriter.Write(piece)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return written, err
}
