package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/rediscluster"
)

// slots is how many there are in a cluster.
const slots = 16384

// Cluster starts masters that know each other and share the slots, each of which refuses a script that reaches for a
// key of another.
func Cluster(t testing.TB, masters int) *redis.ClusterClient {
	t.Helper()
	return Masters(t, masters).Client
}

// Nodes is a running cluster.
type Nodes struct {
	Client  *redis.ClusterClient
	Address []string
	kill    []func()
}

// Masters is a Cluster whose nodes may be killed one at a time.
func Masters(t testing.TB, masters int) *Nodes {
	t.Helper()
	n := &Nodes{}
	var first int // port of the first one's bus
	for i := range masters {
		bus := Port(t)
		if i == 0 {
			first = bus
		}
		addr, kill := Start(t, t.TempDir(), Port(t), "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
			"--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000")
		t.Cleanup(kill)
		n.Address, n.kill = append(n.Address, addr), append(n.kill, kill)
		node := Client(t, addr, 0)
		host, port, _ := net.SplitHostPort(n.Address[0])
		for _, command := range [][]any{
			{"cluster", "addslotsrange", i * slots / masters, (i+1)*slots/masters - 1},
			{"cluster", "set-config-epoch", i + 1},
			{"cluster", "meet", host, port, first},
		} {
			if err := node.Do(context.Background(), command...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, addr := range n.Address {
		awaitCluster(t, Client(t, addr, 0), masters)
	}
	n.Client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: n.Address})
	t.Cleanup(func() { _ = n.Client.Close() })
	return n
}

// Kill ends the node at an address, as a power cut would.
func (n *Nodes) Kill(t testing.TB, address string) {
	t.Helper()
	for i, one := range n.Address {
		if one == address {
			n.kill[i]()
			return
		}
	}
	t.Fatalf("no node is at %s", address)
}

// Owner is the address of the node that has a key's slot, and one that has not.
func (n *Nodes) Owner(t testing.TB, key string) (slot int, owner, other string) {
	t.Helper()
	ctx := context.Background()
	node := redis.NewClient(&redis.Options{Addr: n.Address[0]})
	defer node.Close()
	slot, err := rediscluster.Slot(ctx, node, key)
	if err == nil {
		owner, err = rediscluster.Owner(ctx, node, slot)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range n.Address {
		if one != owner {
			return slot, owner, one
		}
	}
	t.Fatal("a cluster of one has no other node")
	return
}

// Move moves the slot of a key to another node. between is called while the slot is at both.
func (n *Nodes) Move(t testing.TB, key string, between func(portion int)) {
	t.Helper()
	slot, owner, other := n.Owner(t, key)
	from, to := redis.NewClient(&redis.Options{Addr: owner}), redis.NewClient(&redis.Options{Addr: other})
	defer from.Close()
	defer to.Close()
	if err := rediscluster.MoveSlot(context.Background(), from, to, slot, between); err != nil {
		t.Fatal(err)
	}
}

// awaitCluster waits until a master serves and knows the others; a new one waits for two seconds before it does.
func awaitCluster(t testing.TB, node redis.UniversalClient, masters int) {
	t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-look.C {
		info, err := node.ClusterInfo(context.Background()).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") &&
			strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", masters)) {
			return
		}
	}
	t.Fatal("the cluster does not serve")
}
