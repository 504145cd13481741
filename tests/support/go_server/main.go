// The standard library's HTTP server in the place of an API server. It grants every review, and
// answers everything else with what it has read. How it reads a request is the point: one line
// when it has read the head, one when the body has ended or broken off.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"hash"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Bytes that are not UTF-8 must survive JSON: as base64, which is what it makes of a []byte.
type head struct {
	Number           int64               `json:"number"`
	Method           string              `json:"method"`
	RequestURI       []byte              `json:"requestURI"`
	URL              string              `json:"url"`
	Protocol         string              `json:"protocol"`
	Host             string              `json:"host"`
	Headers          map[string][][]byte `json:"headers"`
	ContentLength    int64               `json:"contentLength"`
	TransferEncoding []string            `json:"transferEncoding"`
}

type end struct {
	Ended      int64  `json:"ended"`
	Bytes      int64  `json:"bytes"`
	SHA256     string `json:"sha256"`
	Trailers   int    `json:"trailers"`
	IsComplete bool   `json:"isComplete"`
}

type server struct {
	mutex   sync.Mutex
	records *os.File
	count   atomic.Int64
	ownName string
}

func main() {
	certificate := flag.String("certificate", "", "PEM certificate chain")
	key := flag.String("key", "", "PEM private key")
	records := flag.String("records", "", "file that takes one line of JSON an event")
	portFile := flag.String("port-file", "", "file that tells the port once we listen")
	ownName := flag.String("own-name", "", "whom a SelfSubjectReview tells")
	flag.Parse()

	file, err := os.OpenFile(*records, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(*portFile+".new", []byte(strconv.Itoa(port)), 0o600); err != nil {
		log.Fatal(err)
	}
	if err := os.Rename(*portFile+".new", *portFile); err != nil {
		log.Fatal(err)
	}
	handler := &server{records: file, ownName: *ownName}
	log.Fatal(http.ServeTLS(listener, handler, *certificate, *key))
}

// ServeHTTP is no ServeMux, which would redirect targets that it does not find clean.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/apis/auth") && r.Header.Get("Impersonate-User") == "" {
		s.review(w, r)
		return
	}
	if r.URL.Path == "/version" && r.Header.Get("Impersonate-User") == "" {
		_, _ = w.Write([]byte(`{"major":"1","minor":"37"}`))
		return
	}
	number := s.count.Add(1)
	s.write(readHead(number, r))
	if r.Header.Get("Upgrade") != "" && strings.HasSuffix(r.URL.Path, "/exec") {
		s.tunnel(w, r, number)
		return
	}
	digest := sha256.New()
	count, err := io.Copy(digest, r.Body)
	s.write(ending(number, digest, count, len(r.Trailer), err == nil))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	answer, _ := json.Marshal(map[string]any{"number": number, "bytes": count})
	_, _ = w.Write(answer)
}

func readHead(number int64, r *http.Request) head {
	headers := map[string][][]byte{}
	for name, values := range r.Header {
		for _, value := range values {
			headers[name] = append(headers[name], []byte(value))
		}
	}
	return head{
		Number:           number,
		Method:           r.Method,
		RequestURI:       []byte(r.RequestURI),
		URL:              r.URL.RequestURI(),
		Protocol:         r.Proto,
		Host:             r.Host,
		Headers:          headers,
		ContentLength:    r.ContentLength,
		TransferEncoding: r.TransferEncoding,
	}
}

func ending(number int64, digest hash.Hash, count int64, trailers int, isComplete bool) end {
	return end{number, count, hex.EncodeToString(digest.Sum(nil)), trailers, isComplete}
}

// tunnel switches protocols and returns every byte, until the other side ends.
func (s *server) tunnel(w http.ResponseWriter, r *http.Request, number int64) {
	connection, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		log.Print(err)
		return
	}
	defer connection.Close()
	_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " +
		r.Header.Get("Upgrade") + "\r\n\r\n")
	_ = buffered.Flush()
	digest := sha256.New()
	count, _ := io.Copy(io.MultiWriter(digest, connection), buffered)
	s.write(ending(number, digest, count, 0, true))
}

func (s *server) review(w http.ResponseWriter, r *http.Request) {
	review := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, "cannot be read", http.StatusBadRequest)
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		review["status"] = map[string]any{"userInfo": map[string]any{"username": s.ownName}}
	case strings.HasSuffix(r.URL.Path, "subjectaccessreviews"):
		review["status"] = map[string]any{"allowed": true}
	default:
		review["status"] = map[string]any{"authenticated": false}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(review)
}

func (s *server) write(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		log.Fatal(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, err := s.records.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}
