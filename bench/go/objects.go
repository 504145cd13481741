package main

import "strings"

// Sizes of the objects that are fetched, sent and watched.
const (
	smallBytes  = 2048
	postedBytes = 10 * 1024
	eventBytes  = 1024
	listedBytes = 500 * 1024
)

// object returns a ConfigMap of exactly that many bytes of JSON.
func object(size int) []byte {
	const start = `{"apiVersion":"v1","kind":"ConfigMap",` +
		`"metadata":{"name":"settings","namespace":"default"},"data":{"content":"`
	const end = `"}}`
	return []byte(start + strings.Repeat("x", max(0, size-len(start)-len(end))) + end)
}

// list returns a list of such objects, of 500 KB or a little more.
func list() []byte {
	const start = `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[`
	one := string(object(smallBytes))
	return []byte(start + one + strings.Repeat(","+one, listedBytes/len(one)-1) + "]}")
}
