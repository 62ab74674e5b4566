package stack_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/trials/stack"
)

// A Cluster's masters know each other, so that a client which is told of one finds the keys of all.
func TestClusterIsFoundThroughAnyMaster(t *testing.T) {
	t.Parallel()
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on the PATH; `apt-get install redis-server` has it")
	}
	ctx := context.Background()
	const masters = 3
	s, err := stack.Start(ctx, stack.Config{
		Programs: stack.Programs{Redis: server}, Dir: t.TempDir(), Masters: masters, Volatile: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if want := "redis+cluster://" + strings.Join(s.RedisNodes, ","); s.RedisURL != want || len(s.RedisNodes) != masters {
		t.Errorf("its URL is %s, want %s of %d nodes", s.RedisURL, want, masters)
	}
	for _, node := range s.RedisNodes {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node}})
		defer rdb.Close()
		for i := range 30 {
			key := fmt.Sprintf("key-%d", i)
			if err := rdb.Set(ctx, key, i, 0).Err(); err != nil {
				t.Fatalf("through %s: set %s: %v", node, key, err)
			}
		}
	}
	for _, node := range s.RedisNodes {
		rdb := redis.NewClient(&redis.Options{Addr: node})
		defer rdb.Close()
		if keys, err := rdb.DBSize(ctx).Result(); err != nil || keys == 0 {
			t.Errorf("%s holds %d of 30 keys (%v)", node, keys, err)
		}
	}
}
