// Package fakekubelet does what kubelets do for the pods of a cluster, on this machine and without containers: it runs
// each pod's command as a process, or nothing at all, tells the API server what became of it, and ends it when the pod
// is deleted. Where no scheduler runs it binds pods to nodes, too. It also does to pods what happens to them in
// clusters: containers die, pods are evicted, nodes are cordoned, tainted and taken away.
//
// It polls; it is for tests and trials with a few dozen pods.
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

	"github.com/millrace/millrace/internal/provider/kubernetes/coreclient"
)

// Config says where and how pods are run.
type Config struct {
	API     *rest.Config  // with the rights of an administrator
	Runtime Runtime       // what runs a pod
	IPs     netip.Addr    // the first pod's address; the next ones follow
	Binds   bool          // there is no scheduler: it binds pods to nodes that have room
	Reports bool          // there are controllers: nodes report to them that they are there
	Only    string        // the namespace whose pods it runs; empty: all
	Every   time.Duration // how often it looks
}

// Runtime runs the engine of a pod.
type Runtime interface {
	// Start begins to run it. Its error is a container that cannot be created.
	Start(pod *core.Pod, ip netip.Addr) (Container, error)
}

// Container runs.
type Container interface {
	// Ended is closed when it has ended; Exit then says how.
	Ended() <-chan struct{}
	Exit() (code int, message string)
	// Stop has it end within a grace, and returns at once.
	Stop(grace time.Duration)
}

// Reporter is a Container that says itself what becomes of it: whether it is ready, how often it was started again.
type Reporter interface {
	// Status is the pod's, but for its address.
	Status() core.PodStatus
}

// Kubelet is the kubelet of every node.
type Kubelet struct {
	cfg Config
	api *coreclient.Client

	looking sync.Mutex // held from a list of pods until all are brought further that are on it

	mu     sync.Mutex
	ip     netip.Addr
	runs   map[types.UID]*running
	silent map[string]bool // nodes that do not report
	beat   time.Time       // when nodes reported last
}

// running is a pod whose container was started.
type running struct {
	pod       *core.Pod
	ip        netip.Addr
	container Container
	since     meta.Time
	endsAt    time.Time // when its grace is over; zero: it was not told to end
	oom       bool
	told      core.PodStatus // what a Reporter's status was when the API server was told last
}

// New is a kubelet that has not looked at any pod yet.
func New(cfg Config) (*Kubelet, error) {
	settings := rest.CopyConfig(cfg.API)
	settings.QPS, settings.UserAgent, settings.Timeout = -1, "fakekubelet", 5*time.Second
	api, err := coreclient.New(settings)
	if err != nil {
		return nil, err
	}
	return &Kubelet{
		cfg: cfg, api: api, ip: cfg.IPs, runs: map[types.UID]*running{}, silent: map[string]bool{}, beat: time.Now(),
	}, nil
}

// Run looks after pods until ctx is done, and then ends all that it runs. An API server that does not answer is asked
// again; pods run on meanwhile.
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
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.runs {
		r.container.Stop(0)
	}
	for _, r := range k.runs {
		<-r.container.Ended()
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
	if k.cfg.Binds {
		k.bind(ctx, nodes, pods)
	}
	if k.cfg.Reports {
		k.report(ctx, nodes)
	}
	there := map[types.UID]bool{}
	for i := range pods {
		there[pods[i].UID] = true
		if node := pods[i].Spec.NodeName; node != "" && !k.isSilent(node) {
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
	for uid, r := range k.runs {
		if !there[uid] {
			r.container.Stop(0)
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
	container, err := k.cfg.Runtime.Start(pod, ip)
	if err != nil {
		k.tell(ctx, pod, waiting(pod, "CreateContainerError", err.Error()))
		return
	}
	r := &running{pod: pod, ip: ip, container: container, since: meta.Now()}
	k.mu.Lock()
	k.runs[pod.UID] = r
	k.mu.Unlock()
	k.tellOf(ctx, pod, r)
}

// end stops a pod that is being deleted and, once nothing of it runs, takes it away.
func (k *Kubelet) end(ctx context.Context, pod *core.Pod, r *running) {
	if at := pod.DeletionTimestamp.Time; r.endsAt.IsZero() || at.Before(r.endsAt) { // a grace may be shortened
		r.endsAt = at
		r.container.Stop(time.Until(at))
	}
	select {
	case <-r.container.Ended():
		if k.remove(ctx, pod) == nil {
			k.mu.Lock()
			delete(k.runs, pod.UID)
			k.mu.Unlock()
		}
	default:
	}
}
