// Package fakekubelet does what kubelets and a scheduler do for the pods of a test: it binds them to nodes, tells the
// API server that they run, and ends them when they are deleted. Nothing is run. It also does to pods what happens to
// them in clusters: containers die, pods are evicted, nodes are cordoned, tainted and taken away.
//
// It polls; it is for tests with a few dozen pods.
//
// Start reading at Kubelet.
package fakekubelet

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/coreclient"
)

// Config says where pods are run.
type Config struct {
	API       *rest.Config  // with the rights of an administrator
	Namespace string        // whose pods it runs
	EndsAfter time.Duration // how long a container takes that is told to end, unless its grace is over before
	Every     time.Duration // how often it looks
}

// Kubelet is the kubelet of every node.
type Kubelet struct {
	cfg Config
	api *coreclient.Client

	looking sync.Mutex // held from a list of pods until all are brought further that are on it

	mu   sync.Mutex
	ip   netip.Addr
	runs map[types.UID]*running
}

// running is a pod whose container was started.
type running struct {
	pod    *core.Pod
	ip     netip.Addr
	since  meta.Time
	endsAt time.Time // when its grace is over; zero: it was not told to end
	oom    bool
	once   sync.Once
	ended  chan struct{} // closed when its container has ended
}

// stop has the container end: as late as it may, but no later than after.
func (r *running) stop(grace, after time.Duration) {
	end := func() { r.once.Do(func() { close(r.ended) }) }
	if wait := min(grace, after); wait > 0 {
		time.AfterFunc(wait, end)
		return
	}
	end()
}

// isOver reports whether the container has ended.
func (r *running) isOver() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// New is a kubelet that has not looked at any pod yet.
func New(cfg Config) (*Kubelet, error) {
	settings := rest.CopyConfig(cfg.API)
	settings.QPS, settings.UserAgent, settings.Timeout = -1, "fakekubelet", 5*time.Second
	api, err := coreclient.New(settings)
	if err != nil {
		return nil, err
	}
	return &Kubelet{cfg: cfg, api: api, ip: netip.MustParseAddr("10.0.0.1"), runs: map[types.UID]*running{}}, nil
}

// Run looks after pods until ctx is done. An API server that does not answer is asked again; pods run on meanwhile.
func (k *Kubelet) Run(ctx context.Context) {
	look := time.NewTicker(k.cfg.Every)
	defer look.Stop()
	for ctx.Err() == nil {
		_ = k.look(ctx)
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
}

// look brings every pod one step further.
func (k *Kubelet) look(ctx context.Context) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	nodes, err := k.nodes(ctx)
	if err != nil {
		return err
	}
	pods, err := k.pods(ctx)
	if err != nil {
		return err
	}
	k.bind(ctx, nodes, pods)
	there := map[types.UID]bool{}
	for i := range pods {
		there[pods[i].UID] = true
		if pods[i].Spec.NodeName != "" {
			k.sync(ctx, &pods[i])
		}
	}
	k.forget(there)
	return nil
}

// forget ends what runs for pods that are no more.
func (k *Kubelet) forget(there map[types.UID]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid := range k.runs {
		if !there[uid] {
			delete(k.runs, uid)
		}
	}
}

// sync does for one pod what is next.
func (k *Kubelet) sync(ctx context.Context, pod *core.Pod) {
	k.mu.Lock()
	r := k.runs[pod.UID]
	k.mu.Unlock()
	over := pod.Status.Phase == core.PodFailed || pod.Status.Phase == core.PodSucceeded
	switch {
	case r == nil && pod.DeletionTimestamp != nil:
		_ = k.remove(ctx, pod)
	case r == nil && !over:
		k.start(ctx, pod)
	case r == nil:
	case pod.DeletionTimestamp != nil:
		k.end(ctx, pod, r)
	default:
		k.tellOf(ctx, pod, r)
	}
}

// start runs a pod whose images can be pulled.
func (k *Kubelet) start(ctx context.Context, pod *core.Pod) {
	if missing := missingImage(pod); missing != "" {
		k.tell(ctx, pod, waiting(pod, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q", missing)))
		return
	}
	k.mu.Lock()
	ip := k.ip
	k.ip = k.ip.Next()
	k.mu.Unlock()
	r := &running{pod: pod, ip: ip, since: meta.Now(), ended: make(chan struct{})}
	k.mu.Lock()
	k.runs[pod.UID] = r
	k.mu.Unlock()
	k.tellOf(ctx, pod, r)
}

// end stops a pod that is being deleted and, once nothing of it runs, takes it away.
func (k *Kubelet) end(ctx context.Context, pod *core.Pod, r *running) {
	if at := pod.DeletionTimestamp.Time; r.endsAt.IsZero() || at.Before(r.endsAt) { // a grace may be shortened
		r.endsAt = at
		r.stop(time.Until(at), k.cfg.EndsAfter)
	}
	if r.isOver() && k.remove(ctx, pod) == nil {
		k.mu.Lock()
		delete(k.runs, pod.UID)
		k.mu.Unlock()
	}
}
