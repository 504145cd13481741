package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// upstream imitates an API server that has everything in memory. It returns one object for every
// GET, and allows every review. It counts requests by user name, so that a contestant that skips its
// work, or does different work, is detected.
type upstream struct {
	object  []byte
	list    []byte
	posted  []byte
	callers credentials

	lock          sync.Mutex
	requestsAs    map[string]int
	tokenReviews  int
	accessReviews int
}

func runUpstream(arguments []string) error {
	flags := flag.NewFlagSet("upstream", flag.ExitOnError)
	certificate := flags.String("certificate", "", "PEM file")
	key := flags.String("key", "", "PEM file")
	portFile := flags.String("port-file", "", "file to write the port to")
	caller := flags.String("caller", "", "the user of the clients' token")
	ownToken := flags.String("own-token-file", "", "the credential of every proxy")
	clientToken := flags.String("client-token-file", "", "the credential of every client")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	callers, err := readCredentials(*ownToken, *clientToken, *caller)
	if err != nil {
		return err
	}
	handler := &upstream{
		object:     object(smallBytes),
		list:       list(),
		posted:     object(postedBytes),
		callers:    callers,
		requestsAs: map[string]int{},
	}
	return serve(handler, *certificate, *key, *portFile)
}

func (u *upstream) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	switch path := request.URL.Path; {
	case path == "/counts":
		u.writeCounts(response)
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/tokenreviews"):
		u.count(func() { u.tokenReviews++ })
		user := fmt.Sprintf(`{"username":%q,"groups":["developers"]}`, u.callers.caller)
		answerReview(response, request, `{"authenticated":true,"user":`+user+`}`)
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/subjectaccessreviews"):
		u.count(func() { u.accessReviews++ })
		answerReview(response, request, `{"allowed":true}`)
	case request.Header.Get("Impersonate-User") == "" && path == "/version":
		_, _ = response.Write([]byte(`{"major":"1","minor":"37"}`))
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		answerReview(response, request, `{"allowed":true}`)
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/selfsubjectreviews"):
		answerReview(response, request,
			`{"userInfo":{"username":"`+ownName+`"}}`)
	default:
		name := u.callers.name(request.Header)
		u.count(func() { u.requestsAs[name]++ })
		u.serveObjects(response, request)
	}
}

// serveObjects serves all requests except reviews and counts.
func (u *upstream) serveObjects(response http.ResponseWriter, request *http.Request) {
	switch path, query := request.URL.Path, request.URL.Query(); {
	case request.Method == http.MethodPost:
		u.create(response, request)
	case query.Get("watch") == "true":
		rate, err := strconv.Atoi(query.Get("rate"))
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		writeHeaders(response, request)
		sendEvents(response, request, rate)
	case path == listTarget:
		// Without a length, as an API server sends a response larger than its first buffer.
		writeHeaders(response, request)
		_, _ = response.Write(u.list)
	default:
		writeHeaders(response, request)
		response.Header().Set("Content-Length", strconv.Itoa(len(u.object)))
		_, _ = response.Write(u.object)
	}
}

// create accepts the expected object, and returns it.
func (u *upstream) create(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil || !bytes.Equal(body, u.posted) {
		http.Error(response, "not what was sent", http.StatusBadRequest)
		return
	}
	writeHeaders(response, request)
	response.WriteHeader(http.StatusCreated)
	_, _ = response.Write(body)
}

// sendEvents sends one event at once and then the given rate, until the client disconnects.
func sendEvents(response http.ResponseWriter, request *http.Request, rate int) {
	content, buffer := object(eventBytes), []byte{}
	flusher := http.NewResponseController(response)
	var ticks <-chan time.Time
	if rate > 0 {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		ticks = ticker.C
	}
	for number := 0; ; number++ {
		buffer = writeEvent(buffer[:0], number, content)
		if _, err := response.Write(buffer); err != nil || flusher.Flush() != nil {
			return
		}
		select {
		case <-ticks:
		case <-request.Context().Done():
			return
		}
	}
}

func (u *upstream) count(add func()) {
	u.lock.Lock()
	defer u.lock.Unlock()
	add()
}

func (u *upstream) writeCounts(response http.ResponseWriter) {
	u.lock.Lock()
	defer u.lock.Unlock()
	counts, err := json.Marshal(map[string]any{
		"requestsAs":    u.requestsAs,
		"tokenReviews":  u.tokenReviews,
		"accessReviews": u.accessReviews,
	})
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = response.Write(counts)
}

// writeHeaders sets the headers that an API server sends with an object; the audit ID is that of
// the request, if it has one.
func writeHeaders(response http.ResponseWriter, request *http.Request) {
	header := response.Header()
	auditID := request.Header.Get("Audit-Id")
	if auditID == "" {
		auditID = "6c2f7a60-6b31-4a5e-9c0b-0d9f1f6f2a11"
	}
	header.Set("Audit-Id", auditID)
	header.Set("Cache-Control", "no-cache, private")
	header.Set("Content-Type", "application/json")
	header.Set("X-Kubernetes-Pf-Flowschema-Uid", "5e1f8e0a-5f0c-4b57-8a53-6f5d5b8f5d0e")
	header.Set("X-Kubernetes-Pf-Prioritylevel-Uid", "b3f4b7f1-1f0a-4f35-8c37-7f5a9a6e4b0c")
}

// answerReview returns a review with its status set.
func answerReview(response http.ResponseWriter, request *http.Request, status string) {
	review := map[string]json.RawMessage{}
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	review["status"] = json.RawMessage(status)
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(response).Encode(review)
}
