// Package fakeapi is an API server in memory, of the part of the Kubernetes API that the provider and fakekubelet use:
// pods with their status, binding, eviction and graceful deletion, and nodes. It has no authorization, no admission and
// no watches; those that need these take a real one.
//
// Start reading at Server.
package fakeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Server holds the objects. Its methods may be called at the same time.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int
	pods     map[string]*core.Pod // by namespace/name
	nodes    map[string]*core.Node
	requests []Request
	faults   []func(Request) *apierrors.StatusError
	hanging  chan struct{} // requests wait until it is closed
}

// Request is what was asked for, in the words of RBAC.
type Request struct {
	Verb     string // get, list, create, patch, update, delete
	Resource string // pods, pods/status, nodes, ...
	Agent    string // the User-Agent, which tells the provider from the kubelet
	Continue string // of a list: the page
}

// New serves until the test ends.
func New(t testing.TB) *Server {
	s := &Server{pods: map[string]*core.Pod{}, nodes: map[string]*core.Node{}}
	s.http = httptest.NewServer(s.handler())
	t.Cleanup(func() {
		s.Hang()() // lets go of requests that hang, or Close would wait for them
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Settings are how a client reaches it.
func (s *Server) Settings() *rest.Config { return &rest.Config{Host: s.http.URL} }

// Requests are all that were answered.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Fault has requests answered with an error, where fault is not nil.
func (s *Server) Fault(fault func(Request) *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fault)
}

// Hang has requests not answered until resume is called. Those whose caller has given up have no effect.
func (s *Server) Hang() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hanging == nil {
		s.hanging = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hanging != nil {
			close(s.hanging)
			s.hanging = nil
		}
	})
}

// Pod changes a pod as its test likes, such as its condition.
func (s *Server) Pod(namespace, name string, change func(*core.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod := s.pods[namespace+"/"+name]; pod != nil {
		change(pod)
	}
}

// Add adds pods as they are, such as those of others.
func (s *Server) Add(pods ...core.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pods {
		s.stamp(&pods[i].ObjectMeta)
		s.pods[pods[i].Namespace+"/"+pods[i].Name] = &pods[i]
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	const pods, pod = "/api/v1/namespaces/{namespace}/pods", "/api/v1/namespaces/{namespace}/pods/{name}"
	for pattern, serve := range map[string]handle{
		"GET /api/v1/pods":                  s.listPods,
		"GET " + pods:                       s.listPods,
		"POST " + pods:                      s.createPod,
		"GET " + pod:                        s.getPod,
		"PATCH " + pod:                      s.patchPod,
		"DELETE " + pod:                     s.deletePod,
		"PATCH " + pod + "/status":          s.patchPod,
		"POST " + pod + "/binding":          s.bindPod,
		"POST " + pod + "/eviction":         s.evictPod,
		"GET /api/v1/nodes":                 s.listNodes,
		"POST /api/v1/nodes":                s.createNode,
		"GET /api/v1/nodes/{name}":          s.getNode,
		"PATCH /api/v1/nodes/{name}":        s.patchNode,
		"PATCH /api/v1/nodes/{name}/status": s.patchNode,
		"DELETE /api/v1/nodes/{name}":       s.deleteNode,
	} {
		mux.HandleFunc(pattern, s.serve(serve))
	}
	return mux
}

// handle answers one request, under the lock.
type handle func(r *http.Request, body []byte) (any, *apierrors.StatusError)

func (s *Server) serve(answer handle) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := readBody(r)
		s.mu.Lock()
		hanging := s.hanging
		s.mu.Unlock()
		if hanging != nil {
			select {
			case <-hanging:
			case <-r.Context().Done():
			}
			time.Sleep(5 * time.Millisecond) // a caller that has just given up is noticed
		}
		if r.Context().Err() != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		asked := describe(r)
		s.requests = append(s.requests, asked)
		for _, fault := range s.faults {
			if err := fault(asked); err != nil {
				refuse(w, err)
				return
			}
		}
		object, err := answer(r, body)
		if err != nil {
			refuse(w, err)
			return
		}
		write(w, http.StatusOK, object)
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = meta.TypeMeta{Kind: "Status", APIVersion: "v1"}
	write(w, int(status.Code), status)
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// stamp gives an object what a real API server gives it.
func (s *Server) stamp(object *meta.ObjectMeta) {
	s.version++
	object.UID = types.UID("uid-" + strconv.Itoa(s.version))
	object.CreationTimestamp = meta.NewTime(time.Now().Truncate(time.Second))
	object.ResourceVersion = strconv.Itoa(s.version)
}

func readBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	return body
}
