package main

import (
	"net/http"
	"strings"
)

// ownName is the user of the proxies' own credential.
const ownName = "system:serviceaccount:understudy:understudy"

// credentials are the two valid tokens.
type credentials struct {
	own    string
	client string
	caller string
}

func readCredentials(ownFile, clientFile, caller string) (credentials, error) {
	own, err := readSecret(ownFile)
	if err != nil {
		return credentials{}, err
	}
	client, err := readSecret(clientFile)
	return credentials{"Bearer " + own, "Bearer " + client, caller}, err
}

// name returns the user that a request arrives as. With a proxy's own credential it is the
// impersonated user, or the proxy itself. With a client's credential it is the caller. Without one it
// is the user in X-Remote-User, as front proxies send it. Other combinations get a name that matches
// no expectation, so that a contestant that mixes these is detected.
func (c credentials) name(header http.Header) string {
	shown := header["Authorization"]
	wanted := strings.Join(header["Impersonate-User"], " and ")
	remote := strings.Join(header["X-Remote-User"], " and ")
	switch {
	case len(shown) == 1 && shown[0] == c.own && remote == "":
		if wanted == "" {
			return ownName
		}
		return wanted
	case len(shown) == 1 && shown[0] == c.client && wanted == "" && remote == "":
		return c.caller
	case len(shown) == 0 && wanted == "" && remote != "":
		return remote + " by X-Remote-User"
	default:
		return "nobody (wanted " + wanted + ", remote " + remote + ")"
	}
}
