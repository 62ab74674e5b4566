package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A node is read again after nodeAge at the earliest, and nodesAtOnce are read at the same time. Spot machines leave
// their pods 15 s and more.
const (
	nodeAge     = 5 * time.Second
	nodesAtOnce = 8
)

// nodeReader reads the nodes of our pods, and no others.
type nodeReader struct {
	api    *apiClient
	taints map[string]time.Duration
	off    bool
	log    *slog.Logger

	mu       sync.Mutex // held for the maps, never during a request
	read     map[string]nodeRead
	seen     map[seenTaint]time.Time
	complain bool
}

type nodeRead struct {
	at     time.Time
	notice notice
}

// seenTaint is a taint of one node, not of a later one with its name.
type seenTaint struct {
	node string
	key  string
}

func newNodeReader(cfg Config, api *apiClient, log *slog.Logger) *nodeReader {
	return &nodeReader{
		api: api, taints: noticeTaints(cfg.Notices), off: cfg.IgnoreNodes, log: log,
		read: map[string]nodeRead{}, seen: map[seenTaint]time.Time{}, complain: true,
	}
}

// notices are the notices of the pods' nodes, by node. A node that cannot be read at present keeps its last notice: the
// pods' list is worth more than a notice, and is returned all the same.
func (r *nodeReader) notices(ctx context.Context, pods []podObject) map[string]notice {
	if r.off {
		return nil
	}
	names := map[string]bool{}
	for i := range pods {
		if name := pods[i].Spec.NodeName; name != "" {
			names[name] = true
		}
	}
	now := time.Now()
	var readers errgroup.Group
	readers.SetLimit(nodesAtOnce)
	for _, name := range r.outdated(names, now) {
		readers.Go(func() error { r.readNode(ctx, name, now); return nil })
	}
	_ = readers.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]notice, len(r.read))
	for name, read := range r.read {
		all[name] = read.notice
	}
	return all
}

// outdated forgets the nodes on which no pod of ours is, and names those that are to be read.
func (r *nodeReader) outdated(names map[string]bool, now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.read, func(name string, _ nodeRead) bool { return !names[name] })
	if len(r.read) == 0 {
		clear(r.seen)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool {
		read, known := r.read[name]
		return known && now.Sub(read.at) < nodeAge
	})
}

func (r *nodeReader) readNode(ctx context.Context, name string, now time.Time) {
	node, err := r.api.node(ctx, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	read := nodeRead{at: now}
	switch {
	case err == nil:
		read.notice = readNotice(node, r.taints, func(key string) time.Time {
			taint := seenTaint{node: node.UID, key: key}
			if _, known := r.seen[taint]; !known {
				r.seen[taint] = now
			}
			return r.seen[taint]
		})
		r.complain = true
	case reasonOf(err) == "NotFound":
		read.notice = notice{Reason: fmt.Sprintf("its node %s is no longer in the cluster", name), Gone: true}
	default:
		read.notice = r.read[name].notice
		r.complainOnce(err)
	}
	r.read[name] = read
}

// complainOnce: without nodes engines work, only their notice is shorter.
func (r *nodeReader) complainOnce(err error) {
	if !r.complain || r.log == nil || reasonOf(err) != "Forbidden" {
		return
	}
	r.complain = false
	r.log.Warn("nodes may not be read: an engine learns only from its pod that its machine goes, which is later; give "+
		"the service account the right to get nodes, or set scaling.kubernetes.ignore_nodes", "error", err)
}
