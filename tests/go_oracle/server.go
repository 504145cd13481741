package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	serverfilters "k8s.io/apiserver/pkg/server/filters"
)

// sequence is a run of requests through one filter, which remembers modes and successes between
// them. Shuffle makes Go visit the headers, and so the extra keys, in an order of no pattern.
type sequence struct {
	Constrained bool   `json:"constrained"`
	Shuffle     bool   `json:"shuffle"`
	Steps       []step `json:"steps"`
}

type step struct {
	Head      []byte    `json:"head"`
	Requestor requestor `json:"requestor"`
	Answers   answers   `json:"answers"`
}

type requestor struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

// outcome is everything one request brought about. What was not reached is null.
type outcome struct {
	Status      int         `json:"status"`
	ContentType text        `json:"contentType"`
	Body        text        `json:"body"`
	NoSniff     bool        `json:"noSniff"`
	Read        *read       `json:"read"`
	Attributes  *attributes `json:"attributes"`
	LongRunning bool        `json:"longRunning"`
	Checks      []check     `json:"checks"`
	RanAs       *identity   `json:"ranAs"`
	Constraint  text        `json:"constraint"`
}

// read is what net/http made of the head.
type read struct {
	Method     text    `json:"method"`
	RequestURI text    `json:"requestURI"`
	Path       text    `json:"path"`
	Headers    []named `json:"headers"`
}

type server struct {
	listener *listener
	codecs   serializer.CodecFactory
	resolver *request.RequestInfoFactory
	isLong   request.LongRunningRequestCheck
}

type exchangeKey struct{}

// exchange is one request on its own connection, with the filter chain it has to pass.
type exchange struct {
	handler http.Handler
	outcome *outcome
	shuffle bool
}

func newServer() *server {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	created := &server{
		listener: &listener{connections: make(chan net.Conn)},
		codecs:   serializer.NewCodecFactory(scheme),
		resolver: &request.RequestInfoFactory{
			APIPrefixes:          sets.NewString("api", "apis"),
			GrouplessAPIPrefixes: sets.NewString("api"),
		},
		// The sets kube-apiserver passes in its own configuration.
		isLong: serverfilters.BasicLongRunningRequestCheck(
			sets.NewString("watch", "proxy"),
			sets.NewString("attach", "exec", "proxy", "log", "portforward"),
		),
	}
	web := &http.Server{
		Handler:        http.HandlerFunc(serveExchange),
		MaxHeaderBytes: 1 << 20,
		ErrorLog:       log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, accepted net.Conn) context.Context {
			return context.WithValue(ctx, exchangeKey{}, accepted.(*connection).exchange)
		},
	}
	go func() { log.Fatal(web.Serve(created.listener)) }()
	return created
}

// play sends the steps through one fresh filter, one after the other.
func (s *server) play(asked *sequence) []*outcome {
	recorder := &recorder{}
	next := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		who, _ := request.UserFrom(req.Context())
		ranAs := describeUser(who)
		recorder.outcome.RanAs = &ranAs
	})
	filter := impersonation.WithImpersonation(next, recorder, s.codecs)
	if asked.Constrained {
		filter = impersonation.WithConstrainedImpersonation(next, recorder, s.codecs)
	}
	outcomes := make([]*outcome, len(asked.Steps))
	for i := range asked.Steps {
		step := &asked.Steps[i]
		outcomes[i] = &outcome{}
		recorder.answers, recorder.outcome = &step.Answers, outcomes[i]
		s.exchange(step.Head, &exchange{
			handler: s.chain(filter, step, outcomes[i]),
			outcome: outcomes[i],
			shuffle: asked.Shuffle,
		})
	}
	return outcomes
}

// chain is the API server's order of filters, as far as a decision depends on them.
func (s *server) chain(filter http.Handler, step *step, outcome *outcome) http.Handler {
	who := &user.DefaultInfo{
		Name:   step.Requestor.Name,
		UID:    step.Requestor.UID,
		Groups: step.Requestor.Groups,
		Extra:  step.Requestor.Extra,
	}
	return filters.WithRequestInfo(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := audit.WithAuditContext(request.WithUser(req.Context(), who))
		events := &eventSink{outcome: outcome}
		auditing := audit.AuditContextFrom(ctx)
		config := audit.RequestAuditConfig{Level: auditapi.LevelMetadata}
		if err := auditing.Init(config, events); err != nil {
			log.Fatal(err)
		}
		s.describe(req, ctx, outcome)
		filter.ServeHTTP(w, req.WithContext(ctx))
		auditing.ProcessEventStage(ctx, auditapi.StageResponseComplete)
	}), s.resolver)
}

func (s *server) describe(req *http.Request, ctx context.Context, outcome *outcome) {
	asked, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		log.Fatal(err)
	}
	described := describeAttributes(asked)
	outcome.Attributes = &described
	info, _ := request.RequestInfoFrom(ctx)
	outcome.LongRunning = s.isLong(req, info)
}

type eventSink struct {
	outcome *outcome
}

func (e *eventSink) ProcessEvents(events ...*auditapi.Event) bool {
	for _, event := range events {
		if event.AuthenticationMetadata != nil {
			e.outcome.Constraint = text(event.AuthenticationMetadata.ImpersonationConstraint)
		}
	}
	return true
}

// exchange hands the head to net/http as a connection of its own and waits for its end.
func (s *server) exchange(head []byte, playing *exchange) {
	accepted := &connection{
		exchange: playing,
		incoming: bytes.NewReader(head),
		closed:   make(chan struct{}),
	}
	s.listener.connections <- accepted
	<-accepted.closed
	if playing.outcome.Read != nil {
		return
	}
	// net/http answered by itself; what it wrote is all there is.
	response, err := http.ReadResponse(bufio.NewReader(&accepted.outgoing), nil)
	if err != nil {
		return
	}
	body, _ := io.ReadAll(response.Body)
	playing.outcome.Status = response.StatusCode
	playing.outcome.ContentType = text(response.Header.Get("Content-Type"))
	playing.outcome.Body = text(body)
}

func serveExchange(w http.ResponseWriter, req *http.Request) {
	playing := req.Context().Value(exchangeKey{}).(*exchange)
	playing.outcome.Read = &read{
		Method:     text(req.Method),
		RequestURI: text(req.RequestURI),
		Path:       text(req.URL.Path),
		Headers:    entries(req.Header),
	}
	if playing.shuffle {
		req.Header = shuffled(req.Header)
	}
	// The end of the input cancels a request; a real client waits for its answer.
	patient := req.WithContext(context.WithoutCancel(req.Context()))
	kept := &keptResponse{header: http.Header{}, status: http.StatusOK}
	playing.handler.ServeHTTP(kept, patient)
	playing.outcome.Status = kept.status
	playing.outcome.ContentType = text(kept.header.Get("Content-Type"))
	playing.outcome.Body = text(kept.body.String())
	playing.outcome.NoSniff = kept.header.Get("X-Content-Type-Options") == "nosniff"
	w.Header().Set("Connection", "close")
}

// shuffled rebuilds the map, since Go visits a small one in the order of insertion, rotated.
func shuffled(header http.Header) http.Header {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	rebuilt := make(http.Header, len(header))
	for _, name := range names {
		rebuilt[name] = header[name]
	}
	return rebuilt
}

// keptResponse keeps the body of an answer to HEAD too, which net/http would not write.
type keptResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptResponse) Header() http.Header               { return k.header }
func (k *keptResponse) WriteHeader(status int)            { k.status = status }
func (k *keptResponse) Write(written []byte) (int, error) { return k.body.Write(written) }

// listener accepts connections that exist in memory only.
type listener struct {
	connections chan net.Conn
}

func (l *listener) Accept() (net.Conn, error) { return <-l.connections, nil }
func (l *listener) Close() error              { return errors.New("the listener stays open") }
func (l *listener) Addr() net.Addr            { return &net.TCPAddr{} }

type connection struct {
	exchange *exchange
	incoming *bytes.Reader
	outgoing bytes.Buffer
	closed   chan struct{}
	once     sync.Once
}

func (c *connection) Read(into []byte) (int, error)    { return c.incoming.Read(into) }
func (c *connection) Write(from []byte) (int, error)   { return c.outgoing.Write(from) }
func (c *connection) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *connection) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *connection) SetDeadline(time.Time) error      { return nil }
func (c *connection) SetReadDeadline(time.Time) error  { return nil }
func (c *connection) SetWriteDeadline(time.Time) error { return nil }

func (c *connection) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
