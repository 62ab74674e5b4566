// Package serviceproxy makes the Services of a cluster reachable, as kube-proxy and a cluster's DNS do: it listens on a
// Service's address and connects to one of the pods that are ready, and it knows which addresses names have. It is for
// clusters whose pods are on this machine, and needs Services' addresses to be routed to it.
//
// Start reading at Proxy.
package serviceproxy

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/provider/kubernetes/coreclient"
)

// Proxy follows the Services of an API server.
type Proxy struct {
	api   *coreclient.Client
	names func(map[string][]netip.Addr)

	mu        sync.Mutex
	listeners map[string]*listener // by address:port
}

// listener is a port of a Service. Its pods change while it listens.
type listener struct {
	net.Listener
	ready []string // host:port
}

// New tells names which addresses each name SERVICE.NAMESPACE has, whenever it has looked.
func New(settings *rest.Config, names func(map[string][]netip.Addr)) (*Proxy, error) {
	api, err := coreclient.New(settings)
	if err != nil {
		return nil, err
	}
	return &Proxy{api: api, names: names, listeners: map[string]*listener{}}, nil
}

// Run follows Services until ctx is done. Connections that are there then end with it.
func (p *Proxy) Run(ctx context.Context) {
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		_ = p.look(ctx)
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.listeners {
		l.Close()
	}
}

func (p *Proxy) look(ctx context.Context) error {
	var services core.ServiceList
	if err := p.api.Get().Resource("services").Do(ctx).Into(&services); err != nil {
		return err
	}
	var pods core.PodList
	if err := p.api.Get().Resource("pods").Do(ctx).Into(&pods); err != nil {
		return err
	}
	names, there := map[string][]netip.Addr{}, map[string]bool{}
	for i := range services.Items {
		service := &services.Items[i]
		if len(service.Spec.Selector) == 0 {
			continue
		}
		ready := readyPods(service, pods.Items)
		name := service.Name + "." + service.Namespace
		if service.Spec.ClusterIP == core.ClusterIPNone {
			for _, pod := range ready {
				names[name] = append(names[name], netip.MustParseAddr(pod.Status.PodIP))
			}
			continue
		}
		names[name] = []netip.Addr{netip.MustParseAddr(service.Spec.ClusterIP)}
		for _, port := range service.Spec.Ports {
			address := net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
			there[address] = true
			p.listen(ctx, address, targets(ready, port.TargetPort))
		}
	}
	p.closeOthers(there)
	p.names(names)
	return nil
}

// readyPods are those to which a Service leads: ready, and not about to end.
func readyPods(service *core.Service, pods []core.Pod) (ready []*core.Pod) {
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for i := range pods {
		pod := &pods[i]
		if pod.Namespace != service.Namespace || !selector.Matches(labels.Set(pod.Labels)) ||
			pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == core.PodReady && c.Status == core.ConditionTrue {
				ready = append(ready, pod)
			}
		}
	}
	return ready
}

func targets(pods []*core.Pod, port intstr.IntOrString) (all []string) {
	for _, pod := range pods {
		number := port.IntValue()
		for _, c := range pod.Spec.Containers {
			for _, named := range c.Ports {
				if port.Type == intstr.String && named.Name == port.StrVal {
					number = int(named.ContainerPort)
				}
			}
		}
		all = append(all, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(number)))
	}
	return all
}

func (p *Proxy) listen(ctx context.Context, address string, ready []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.listeners[address]; l != nil {
		l.ready = ready
		return
	}
	at, err := net.Listen("tcp", address)
	if err != nil {
		return
	}
	l := &listener{Listener: at, ready: ready}
	p.listeners[address] = l
	go p.accept(ctx, l)
}

func (p *Proxy) closeOthers(there map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, l := range p.listeners {
		if !there[address] {
			l.Close()
			delete(p.listeners, address)
		}
	}
}

func (p *Proxy) accept(ctx context.Context, l *listener) {
	for {
		from, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go p.carry(ctx, l, from)
		}
	}
}

// carry copies between a client and one of the pods. A Service without a pod that is ready refuses.
func (p *Proxy) carry(ctx context.Context, l *listener, from net.Conn) {
	defer from.Close()
	p.mu.Lock()
	ready := l.ready
	p.mu.Unlock()
	if len(ready) == 0 {
		if tcp, ok := from.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // so that the client sees a reset
		}
		return
	}
	to, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", ready[rand.IntN(len(ready))])
	if err != nil {
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { from.Close(); to.Close() })
	defer stop()
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { one(to, from) })
	both.Go(func() { one(from, to) })
	both.Wait()
}
