// Command informer watches the ConfigMaps of one namespace as every controller does, and prints a
// JSON line for each request it makes, each event it is told, and each error it would report. It
// speaks protobuf, asks for gzip and lists by watching, client-go's own ways.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

type line struct {
	What            string `json:"what"`
	Name            string `json:"name,omitempty"`
	Value           string `json:"value,omitempty"`
	Error           string `json:"error,omitempty"`
	Status          int    `json:"status,omitempty"`
	ContentType     string `json:"contentType,omitempty"`
	IsGzip          bool   `json:"isGzip,omitempty"`
	IsInitialEvents bool   `json:"isInitialEvents,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// printer writes whole lines, whichever goroutine they come from.
type printer struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func (p *printer) print(l line) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.encoder.Encode(l); err != nil {
		log.Fatalf("informer: %v", err)
	}
}

// spy prints each request with what came of it.
type spy struct {
	next http.RoundTripper
	out  *printer
}

func (s *spy) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	l := line{
		What:            "request",
		IsInitialEvents: query.Get("sendInitialEvents") == "true",
		ResourceVersion: query.Get("resourceVersion"),
	}
	response, err := s.next.RoundTrip(request)
	if err != nil {
		l.Error = err.Error()
	} else {
		l.Status = response.StatusCode
		l.ContentType = response.Header.Get("Content-Type")
		// Go asks for gzip by itself, and says here that it has undone it.
		l.IsGzip = response.Uncompressed
	}
	s.out.print(l)
	return response, err
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	namespace := flag.String("namespace", "", "whose ConfigMaps to watch")
	klog.InitFlags(nil)
	// So much that a watch which ends in the middle of an event is told.
	if err := flag.Set("v", "1"); err != nil {
		log.Fatalf("informer: %v", err)
	}
	flag.Parse()
	if err := run(*kubeconfig, *namespace); err != nil {
		log.Fatalf("informer: %v", err)
	}
}

func run(kubeconfig, namespace string) error {
	out := &printer{encoder: json.NewEncoder(os.Stdout)}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &spy{next, out} })
	informer, err := configMaps(config, namespace, out)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			out.print(line{What: "synced"})
		}
	}()
	informer.RunWithContext(ctx)
	return nil
}

func configMaps(config *rest.Config, namespace string, out *printer) (cache.SharedIndexInformer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(
		client, time.Duration(0), informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if err := informer.SetWatchErrorHandlerWithContext(
		func(_ context.Context, _ *cache.Reflector, err error) {
			out.print(line{What: "error", Error: err.Error()})
		}); err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { out.print(told("added", object)) },
		UpdateFunc: func(_, object any) { out.print(told("updated", object)) },
		DeleteFunc: func(object any) { out.print(told("deleted", object)) },
	})
	return informer, err
}

func told(what string, object any) line {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok {
		// What the informer says when it did not see the deletion itself: an event was lost.
		return line{What: "lost"}
	}
	return line{What: what, Name: configMap.Name, Value: configMap.Data["value"]}
}
