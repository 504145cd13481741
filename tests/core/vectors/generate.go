// Writes what Go and Kubernetes make of the inputs below, for the tests beside it to compare with.
//
//	cd tests/oracle && go run ../core/vectors/generate.go ../core/vectors
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"
)

type action struct {
	Method, Target                                                     string
	Error                                                              string `json:",omitempty"`
	URI                                                                string
	Verb, Path, Group, Version, Namespace, Resource, Name, Subresource string
	IsResource, LongRunning, Unparsed                                  bool
	Fields                                                             [][]string
	Labels                                                             [][]string
}

var factory = &request.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

var longRunning = genericfilters.BasicLongRunningRequestCheck(
	sets.NewString("watch", "proxy"),
	sets.NewString("attach", "exec", "proxy", "log", "portforward"),
)

func readAction(method, target string) action {
	result := action{Method: method, Target: target}
	text := method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		panic(err)
	}
	result.URI = req.URL.RequestURI()
	info, err := factory.NewRequestInfo(req)
	if err != nil {
		result.Error = fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: %v", req.RequestURI, err)
		return result
	}
	attributes, err := filters.GetAuthorizerAttributes(request.WithRequestInfo(req.Context(), info))
	if err != nil {
		panic(err)
	}
	result.Verb, result.Path = attributes.GetVerb(), attributes.GetPath()
	result.IsResource, result.LongRunning = attributes.IsResourceRequest(), longRunning(req, info)
	result.Group, result.Version = attributes.GetAPIGroup(), attributes.GetAPIVersion()
	result.Namespace, result.Resource = attributes.GetNamespace(), attributes.GetResource()
	result.Name, result.Subresource = attributes.GetName(), attributes.GetSubresource()
	fieldRequirements, fieldErr := attributes.GetFieldSelector()
	labelRequirements, labelErr := attributes.GetLabelSelector()
	result.Unparsed = fieldErr != nil || labelErr != nil
	result.Fields, result.Labels = fieldRows(fieldRequirements), labelRows(labelRequirements)
	return result
}

func fieldRows(requirements fields.Requirements) [][]string {
	rows := [][]string{}
	for _, r := range requirements {
		rows = append(rows, []string{r.Field, string(r.Operator), r.Value})
	}
	return rows
}

func labelRows(requirements labels.Requirements) [][]string {
	rows := [][]string{}
	for _, r := range requirements {
		rows = append(rows, append([]string{r.Key(), string(r.Operator())}, r.Values().List()...))
	}
	return rows
}

type selector struct {
	Text         string
	Parses       bool
	Requirements [][]string
}

func readFields(text string) selector {
	parsed, err := fields.ParseSelector(text)
	if err != nil {
		return selector{Text: text}
	}
	return selector{text, true, fieldRows(parsed.Requirements())}
}

func readLabels(text string) selector {
	parsed, err := labels.Parse(text)
	if err != nil {
		return selector{Text: text}
	}
	requirements, _ := parsed.Requirements()
	return selector{text, true, labelRows(requirements)}
}

type quoted struct {
	Bytes  []byte
	Quoted string
}

type key struct{ Key, Fault string }

func readKey(text string) key {
	if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), text).ToAggregate(); err != nil {
		return key{text, err.Error()}
	}
	return key{text, ""}
}

type negotiated struct {
	Agent, Query, Accept, MediaType string
	Pretty                          bool
}

var codecs = serializer.NewCodecFactory(runtime.NewScheme())

// negotiate tells how an error would be written; without a common media type it is indented JSON.
func negotiate(agent, query, accept string) negotiated {
	result := negotiated{Agent: agent, Query: query, Accept: accept}
	req := &http.Request{URL: &url.URL{Path: "/", RawQuery: query}, Header: http.Header{}}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept", accept)
	_, info, err := negotiation.NegotiateOutputMediaType(req, codecs, negotiation.DefaultEndpointRestrictions)
	if err != nil {
		result.MediaType, result.Pretty = "none", true
		return result
	}
	result.MediaType, result.Pretty = info.MediaType, info.Serializer == info.PrettySerializer
	return result
}

// write puts one row on a line, so that a change of one row is a change of one line.
func write[Row any](directory, name string, rows []Row) {
	file, err := os.Create(filepath.Join(directory, name+".json"))
	if err != nil {
		panic(err)
	}
	defer file.Close()
	for i, row := range rows {
		line := &strings.Builder{}
		encoder := json.NewEncoder(line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(row); err != nil {
			panic(err)
		}
		fmt.Fprint(file, map[bool]string{true: "[", false: ","}[i == 0], line.String())
	}
	fmt.Fprintln(file, "]")
}

func each[In, Out any](inputs []In, read func(In) Out) []Out {
	var results []Out
	for _, input := range inputs {
		results = append(results, read(input))
	}
	return results
}

func main() {
	klog.SetLogger(klog.Logger{}) // a refused request is a result here, not news
	directory := os.Args[1]
	var actions []action
	for _, target := range targets {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if method == "GET" || !strings.Contains(target, "?") || method == "DELETE" {
				actions = append(actions, readAction(method, target))
			}
		}
	}
	write(directory, "actions", actions)
	write(directory, "field_selectors", each(fieldSelectors, readFields))
	write(directory, "label_selectors", each(labelSelectors, readLabels))
	write(directory, "extra_keys", each(extraKeys, readKey))
	var forms []negotiated
	for _, accept := range accepts {
		forms = append(forms, negotiate("kubectl/v1.37", "", accept))
	}
	for _, agent := range []string{"kubectl/v1.37", "", "curl/8.0", "Wget/1", "Mozilla/5.0 (X11)", "Mozilla/4.0", "a curl"} {
		for _, query := range queries {
			forms = append(forms, negotiate(agent, query, ""), negotiate(agent, query, "application/json;pretty=1"))
		}
	}
	write(directory, "negotiation", forms)
	var quotes []quoted
	for _, text := range append(quotedTexts, runes()...) {
		quotes = append(quotes, quoted{[]byte(text), fmt.Sprintf("%q", text)})
	}
	write(directory, "quotes", quotes)
}

// runes samples every plane: all of the first 1024, then ever wider steps, and both ends.
func runes() []string {
	var texts []string
	for r := rune(0); r <= 0x10ffff; r++ {
		if r < 1024 || (r < 0x10000 && r%37 == 0) || r%997 == 0 || r&0xffff >= 0xfffd {
			texts = append(texts, string(r))
		}
	}
	var joined []string
	for i := 0; i < len(texts); i += 16 {
		joined = append(joined, strings.Join(texts[i:min(i+16, len(texts))], ""))
	}
	return joined
}

var quotedTexts = []string{
	"", "alice", `a"b`, `a\b`, "a\x00\x07\x08\x0b\x0c\n\r\t\x1b\x7f", "\xff", "a\xe1\x9bz", "\xed\xa0\x80",
	"\xf4\x90\x80\x80", "�", "\u00a0\u2028\ufeff", "héllo wörld", "日本語", "😀", "'single'", "<&>", "a b ",
}

var targets = []string{
	"/", "//", "/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/apps/v1/",
	"/healthz", "/healthz/", "/version", "/debug/pprof/heap", "/debug/pprof", "/logs/a%2Fb", "/openapi/v3?hash=1",
	"/api/v1/pods", "/api/v1/pods/", "/api/v1/pods/x", "/api/v1/pods/x/log", "/api/v1/pods/x/proxy/a/b",
	"/api/v1/namespaces", "/api/v1/namespaces/", "/api/v1/namespaces/x", "/api/v1/namespaces/x/",
	"/api/v1/namespaces/x/status", "/api/v1/namespaces/x/finalize", "/api/v1/namespaces/x/finalize/y",
	"/api/v1/namespaces/x/pods", "/api/v1/namespaces/x/pods/y", "/api/v1/namespaces/x/pods/y/exec",
	"/api/v1/namespaces/x/pods/y/exec/z", "/api/v1/namespaces/x//y", "/api/v1/namespaces//pods",
	"/api/v1/namespaces/namespaces/namespaces", "/apis/apps/v1/namespaces/x/deployments/y/scale",
	"/apis/apps/v1/deployments", "/apis//v1/x", "/apis/apps//x", "/apis/apps/v1//x", "/api/v1//pods", "/api//pods/x",
	"//api/v1/pods", "/api/v1/pods//", "/api//v1/pods", "/api/v1/../secrets", "/api/v1/./pods", "/api/v1/pods/..",
	"/api/v1/watch", "/api/v1/watch/", "/api/v1/proxy", "/apis/apps/v1/watch", "/api/v1/watch?a=<b>&c=%22",
	"/api/v1/watch/pods", "/api/v1/watch/pods/x", "/api/v1/watch/namespaces/x/pods", "/api/v1/watch/namespaces/x/pods/y",
	"/api/v1/watch/namespaces", "/api/v1/watch//", "/api/v1/proxy/pods/x", "/api/v1/proxy/pods/x/y",
	"/api/v1/proxy/namespaces/x/services/y/z", "/api/v1/watch/watch", "/api/v1/proxy/pods?fieldSelector=metadata.name%3Dx",
	"/api/v1/watch/pods?fieldSelector=metadata.name%3Dx", "/api/v1/namespaces%2Fx%2Fpods", "/%61pi/v1/pods",
	"/api/v1/p%6fds", "/api/v1/pods/a%20b", "/api/v1/pods/%C3%A9", "/api/v1/pods/\xc3\xa9", "/api/v1/pods/a+b",
	"/api/v1/pods/a%2Bb", "/api/v1/pods/a;b", "/api/v1/pods/a%3Fb", "/api/v1/pods/a%23b", "/api/v1/pods/a%25b",
	"/api/v1/pods/<x>", "/api/v1/pods/\"x\"", "/api/v1/pods/{x}", "/api/v1/pods/[x]", "/api/v1/pods/!$&'()*+,;=:@",
	"/api/v1/pods?", "/api/v1/pods??", "/api/v1/pods?watch", "/api/v1/pods?watch=", "/api/v1/pods?watch=0",
	"/api/v1/pods?watch=false", "/api/v1/pods?watch=FALSE", "/api/v1/pods?watch=no", "/api/v1/pods?watch=1",
	"/api/v1/pods?watch=fal%C5%BFe", "/api/v1/pods?watch=fal%C5%BFe&limit=x", "/api/v1/pods?watch=00",
	"/api/v1/pods?watch=0&watch=1", "/api/v1/pods?watch=1&watch=0", "/api/v1/pods?watch=%zz&watch=0",
	"/api/v1/pods?watch=1;&watch=0", "/api/v1/pods?watch=1;a=b", "/api/v1/pods?a;b&watch", "/api/v1/pods?w%61tch=1",
	"/api/v1/pods?wat%zzch=1", "/api/v1/pods?&&watch&&", "/api/v1/pods?watch=1&limit=x", "/api/v1/pods?watch=0&limit=x",
	"/api/v1/pods?watch=+0", "/api/v1/pods?Watch=1", "/api/v1/pods?=watch", "/api/v1/pods?watch==1", "/api/v1/pods?watch=%00",
	"/api/v1/pods/x?watch=1", "/api/v1/namespaces/x?watch=1", "/api/v1/namespaces/x/pods//log?watch=1",
	"/api/v1/pods?fieldSelector=metadata.name%3Dx", "/api/v1/pods?fieldSelector=metadata.name==x",
	"/api/v1/pods?fieldSelector=metadata.name!=x", "/api/v1/pods?fieldSelector=metadata.name=.",
	"/api/v1/pods?fieldSelector=metadata.name=..", "/api/v1/pods?fieldSelector=metadata.name=a/b",
	"/api/v1/pods?fieldSelector=metadata.name=a%2525b", "/api/v1/pods?fieldSelector=metadata.name=",
	"/api/v1/pods?fieldSelector=metadata.name=b,metadata.name=a", "/api/v1/pods?fieldSelector=a=b,metadata.name=c",
	"/api/v1/pods?fieldSelector=metadata.name=a%5C%2Cb", "/api/v1/pods?fieldSelector=metadata.name=x&limit=500",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=x", "/api/v1/pods?fieldSelector=metadata.name=x&limit=",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=-1", "/api/v1/pods?fieldSelector=metadata.name=x&limit=%2B1",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=9223372036854775807",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=9223372036854775808",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=-9223372036854775808",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=-9223372036854775809",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=00000000000000000000000000000001",
	"/api/v1/pods?fieldSelector=metadata.name=x&limit=1_000", "/api/v1/pods?fieldSelector=metadata.name=x&limit=%D9%A1",
	"/api/v1/pods?fieldSelector=metadata.name=x&timeoutSeconds=1m", "/api/v1/pods?fieldSelector=metadata.name=x&timeoutSeconds=60",
	"/api/v1/pods?fieldSelector=metadata.name=x&timeoutSeconds=1&timeoutSeconds=x",
	"/api/v1/pods?fieldSelector=metadata.name=x&labelSelector=a%3D%3D%3D", "/api/v1/pods?fieldSelector=nonsense&watch=1",
	"/api/v1/pods?fieldSelector=nonsense&labelSelector=a=b", "/api/v1/pods?fieldSelector=a=b&labelSelector=a%20b",
	"/api/v1/pods?labelSelector=b=2,a=1", "/api/v1/pods?labelSelector=a+in+(c,b,c)", "/api/v1/pods?labelSelector=a%3E1",
	"/api/v1/pods?labelSelector=a%00b", "/api/v1/pods?labelSelector=+", "/api/v1/pods?labelSelector=", "/api/v1/pods?labelSelector=%FF",
	"/api/v1/pods?fieldSelector=%20a=b%20", "/api/v1/pods?fieldSelector==", "/api/v1/pods?fieldSelector=,,",
	"/api/v1/pods?fieldSelector=a%0ab=c", "/api/v1/pods?sendInitialEvents=x&fieldSelector=metadata.name=x&watch",
	"/api/v1/pods?resourceVersionMatch=x&allowWatchBookmarks=&fieldSelector=metadata.name=x",
	"/apis/apps/v1/namespaces/x/deployments?labelSelector=app=web&fieldSelector=metadata.name=x",
	"/version?fieldSelector=metadata.name=x&watch", "/api?watch",
}

var queries = []string{
	"", "pretty", "pretty=", "pretty=1", "pretty=0", "pretty=true", "pretty=T", "pretty=yes", "a=pretty", "pretty=1&pretty=0",
	"pretty=0&pretty=1", "pretty=1;", "pr%65tty=1", "pretty=%31",
}

var accepts = []string{
	"", "application/json", "application/json;pretty=1", "application/json; pretty = 1 ", "application/json;pretty=true",
	"application/json;pretty=1=1", "application/json;pretty=1=", "application/json;pretty==1", "application/json;pretty==", "application/json;pretty", "application/json;=1",
	"text/html", "text/html,*/*;q=0.1", "*", "*/", "*/*", "*/*;pretty=1", "*/json", "application/*", "application", "application/", "application//",
	"application/json/x", "application/json/", ",", ",,", " , application/json", " application/json ", " application / json ", ";", ";;", "/", "//", "=",
	"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=",
	"application/json;g=x", "application/json;v=x", "application/json;sv=v1", "application/json;sv=", "application/json;stream=watch",
	"application/json;stream=x", "application/json;stream=", "application/cbor", "application/JSON", "application/json;Pretty=1",
	"*/*;pretty=1,application/json", "application/*;pretty=1,application/json", "application/json,*/*;pretty=1",
	"application/json;q=0.5,application/json;pretty=1;q=0.9", "application/json;q=0.9,application/json;pretty=1;q=0.5",
	"application/json;q=x,application/json;pretty=1;q=0.1", "application/json;q= 0.9,application/json;pretty=1;q=0.1",
	"application/json;q=0.9 ,application/json;pretty=1;q=0.1", "application/json;q=.5,application/json;pretty=1;q=1e-1",
	"application/json;q=1e-1,application/json;pretty=1;q=+.5", "*/*;q=0.9,application/json;pretty=1;q=0.1", "text/html;q=1,application/json;q=0.1;pretty=1",
	"application/json;profile=x", "application/json;export=1;x=y", "a/b;q=0.1,*/*;q=0.2,application/json;pretty=1;q=0.3",
	"application/json;q=0,application/json;pretty=1;q=0", "*/*,application/*,application/json;pretty=1",
}

var fieldSelectors = []string{
	"", ",", "a", "a=b", "a==b", "a!=b", "a===b", "a=b=c", "a!b", "a!=!=b", "=", "!=", "==", "=b", "a=", "a!=", "=,=",
	"b=2,a=1", "a=1,a=1", "a=1,,b=2", " a=b ", `a=b\,c`, `a=b\=c`, `a=b\\c`, `a=b\c`, `a=\`, `a=\,`, `a\,b=c`, `a\=b`,
	`a=1,b=\\,c=3`, `a=\\\,b,c=d`, "é=ü", `a=é\,ü`, "a=\n", "a=b\x00c", "a=b!=c", "a<b", "a>=b", "z=1,b!=2,b=2", `\`, `\,`, `\=`,
	`a=b\,c=d`, `a=b=\,c`, `a=\=\\\,`,
}

var labelSelectors = []string{
	"", " ", ",", "a", "!a", "! a", "!!a", "a,b", "a,", ",a", "a,,b", "a b", "a=b", "a==b", "a!=b", "a===b", "a = b", "a=", "a==",
	"a!=", "a=,b", "a=b,c=d", "c=d,a=b", "a=b c", "!a=b", "!a in (b)", "a in (b)", "a in(b)", "a in (b,c)", "a in (c,b,c)",
	"a in ()", "a in (,)", "a in (,b)", "a in (b,)", "a in (b,,c)", "a in (,,)", "a in (", "a in b", "a in", "a in )", "a in (b",
	"a in (b c)", "a in (b=c)", "a in (!b)", "a in (b))", "a in ((b))", "a notin (b)", "a notin ()", "in", "notin", "in in (in,notin)",
	"in=in", "!in", "in,notin", "a=in", "a>1", "a<1", "a>", "a>x", "a>-1", "a>=1", "a>9223372036854775807", "a>9223372036854775808",
	"a>1,b<2", "a>01", "a<>1", "a=b=c", "a=>b", "(a)", "a)", "=b", "!=b", "in (a)", "notin (a)", "a\tin\n(b\r,c)",
	"example.com/a=b", "example.com/=b", "/a=b", "a/b/c=d", "Example.com/a=b", "-a=b", "a-=b", "a_b.c-d=1", "a=-b", "a=b-", "a=B_1.c",
	"é=b", "a=é", "a\x00", "a\x00b", "\x00a", "a=\x00b", "a\x00=b", " \x00a", "a,\x00b", "a=b\x00,c", "!\x00a", "a in\x00(b)", "a in (\x00b)",
	"a=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "a=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	"a!", "a!b", "a=!b", "a=(b)", "a;b", "a&b", "a=b;c", "x in (foo,,baz),y,z notin ()", "a=b,a=c,a!=d",
	strings.Repeat("a", 254) + "/b=c", strings.Repeat("a", 253) + "/b=c",
}

var extraKeys = []string{
	"scopes", "/", "a/", "/a", "acme.io/foo", "acme.io/Foo", "Acme.io/foo", "acme_io/foo", "acme.io/a b", "acme_io/a b",
	"acme.io/a/b", "acme.io/%zz", "acme.io/-._~%!$&'()*+,;=:", "acme.io/é", "é/a", "a\"b/c", "a/\"", "a.io/a\n", "a.io\n/a",
	strings.Repeat("a", 253) + "/b", strings.Repeat("a", 254) + "/b", strings.Repeat("A", 254) + "/b",
	strings.Repeat("A", 254) + "/b c", strings.Repeat("a", 254) + "/b c", strings.Repeat("é", 127) + "/b", "a./b", ".a/b", "-a/b", "a-/b", "a..b/c",
}
