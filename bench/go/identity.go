package main

import (
	"net/http"
	"strings"
)

// ownName is the user behind the credential that every proxy has for itself.
const ownName = "system:serviceaccount:understudy:understudy"

// credentials are the two tokens that mean something here, and nobody else's.
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

// name tells as whom a request arrives: by an own credential whoever is impersonated, or itself; by
// a client's credential the caller; by X-Remote-User, as front proxies say it, whoever that is. What
// nobody should send gets a name that nobody expects: a contestant that mixes these is found out.
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
