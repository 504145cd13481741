// Chains of certificates, verified by Go's own code or shown to a server, one JSON line each.
//
// A line without a url is verified here, as kube-apiserver does it: what crypto/tls refuses in a
// handshake, then Certificate.Verify for clients, then the subject. A line with one is shown to that
// server in a handshake, with a SelfSubjectReview. Certificates are sent as they are, parsed or not.
package main

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	mostRSABits  = 8192
	leastRSABits = 1024
	review       = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	reviewPath   = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
)

type question struct {
	Roots [][]byte `json:"roots"`
	Chain [][]byte `json:"chain"`
	URL   string   `json:"url"`
	Key   []byte   `json:"key"`
	Token string   `json:"token"`
}

type answer struct {
	Status int             `json:"status"`
	User   json.RawMessage `json:"user,omitempty"`
	Name   string          `json:"name"`
	Groups []string        `json:"groups"`
	Error  string          `json:"error"`
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var a answer
		if q.URL == "" {
			a = verify(q)
		} else {
			a = show(q)
		}
		if err := out.Encode(a); err != nil {
			os.Exit(1)
		}
	}
}

func verify(q question) answer {
	certs := make([]*x509.Certificate, len(q.Chain))
	for i, der := range q.Chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return answer{Error: "handshake: " + err.Error()}
		}
		if key, ok := cert.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > mostRSABits {
			return answer{Error: "handshake: long key"}
		}
		certs[i] = cert
	}
	if err := checkOwnKey(certs[0].PublicKey); err != nil {
		return answer{Error: "handshake: " + err.Error()}
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, der := range q.Roots {
		root, err := x509.ParseCertificate(der)
		if err != nil {
			return answer{Error: "root: " + err.Error()}
		}
		roots.AddCert(root)
	}
	for _, cert := range certs[1:] {
		between.AddCert(cert)
	}
	_, err := certs[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return answer{Error: err.Error()}
	}
	subject := certs[0].Subject
	return answer{Status: 200, Name: subject.CommonName, Groups: subject.Organization}
}

// checkOwnKey tells whether a handshake could be signed with the key: what crypto/rsa verifies with.
func checkOwnKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if key.N.BitLen() < leastRSABits || key.N.Bit(0) == 0 || key.E < 2 || key.E&1 == 0 || key.E > 1<<31-1 {
			return errors.New("a key that verifies nothing")
		}
		return nil
	}
	return errors.New("unsupported key")
}

func show(q question) answer {
	key, err := x509.ParsePKCS8PrivateKey(q.Key)
	if err != nil {
		return answer{Error: err.Error()}
	}
	chain := &tls.Certificate{Certificate: q.Chain, PrivateKey: key}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // whose answer it is does not matter here
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return chain, nil
			},
		},
		DisableKeepAlives: true,
	}
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	request, err := http.NewRequest(http.MethodPost, q.URL+reviewPath, bytes.NewReader([]byte(review)))
	if err != nil {
		return answer{Error: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	if q.Token != "" {
		request.Header.Set("Authorization", "Bearer "+q.Token)
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{Error: "handshake: " + err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{Error: err.Error()}
	}
	told := answer{Status: response.StatusCode}
	if response.StatusCode == http.StatusCreated {
		var document struct {
			Status struct {
				UserInfo json.RawMessage `json:"userInfo"`
			} `json:"status"`
		}
		if err := json.Unmarshal(body, &document); err != nil {
			return answer{Error: err.Error()}
		}
		told.User = document.Status.UserInfo
	}
	return told
}
