package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// upstream answers like an API server that has everything in memory: one object for every GET, yes
// to every review. It counts what it was asked and as whom, so that a contestant which skips its
// work, or does another's, is found out.
type upstream struct {
	object []byte
	caller string

	lock          sync.Mutex
	requestsAs    map[string]int
	tokenReviews  int
	accessReviews int
}

func runUpstream(arguments []string) error {
	flags := flag.NewFlagSet("upstream", flag.ExitOnError)
	certificate := flags.String("certificate", "", "PEM file")
	key := flags.String("key", "", "PEM file")
	portFile := flags.String("port-file", "", "where the port is written")
	size := flags.Int("object-bytes", 2048, "size of the object that every GET returns")
	caller := flags.String("caller", "", "the user that every token belongs to")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	handler := &upstream{object: object(*size), caller: *caller, requestsAs: map[string]int{}}
	return serve(handler, *certificate, *key, *portFile)
}

func (u *upstream) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	switch path := request.URL.Path; {
	case path == "/counts":
		u.writeCounts(response)
	case request.Method == http.MethodPost && strings.HasSuffix(path, "/tokenreviews"):
		u.count(func() { u.tokenReviews++ })
		user := fmt.Sprintf(`{"username":%q,"groups":["developers"]}`, u.caller)
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
			`{"userInfo":{"username":"system:serviceaccount:understudy:understudy"}}`)
	default:
		identity := strings.Join(request.Header["Impersonate-User"], " and ")
		u.count(func() { u.requestsAs[identity]++ })
		u.writeObject(response, request)
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

// writeObject sends the headers that an API server sends with an object.
func (u *upstream) writeObject(response http.ResponseWriter, request *http.Request) {
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
	header.Set("Content-Length", strconv.Itoa(len(u.object)))
	_, _ = response.Write(u.object)
}

// answerReview returns a review as it came, with its status filled in.
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

// object returns a ConfigMap of exactly that many bytes of JSON.
func object(size int) []byte {
	const start = `{"apiVersion":"v1","kind":"ConfigMap",` +
		`"metadata":{"name":"settings","namespace":"default"},"data":{"content":"`
	const end = `"}}`
	return []byte(start + strings.Repeat("x", max(0, size-len(start)-len(end))) + end)
}
