package redisserver

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RewriteTornLogs has each node that was restarted write its append-only log anew, once per life, and does not wait for
// it. A log that ends within a transaction, as every script is one, is loaded without it but keeps its beginning: what
// is appended then ends it, so that the next restart does half of it (Redis 7.0, aof-load-truncated yes). A Redis that
// forbids the command keeps its log.
func RewriteTornLogs(ctx context.Context, rdb redis.UniversalClient) error {
	rewrite := func(ctx context.Context, node *redis.Client) error {
		info, err := node.Info(ctx, "persistence").Result()
		if err != nil {
			return err
		}
		for _, untouched := range []string{"\naof_enabled:1", "\naof_rewrites:0", "\naof_rewrite_in_progress:0",
			"\naof_rewrite_scheduled:0"} {
			if !strings.Contains(info, untouched) {
				return nil
			}
		}
		return node.BgRewriteAOF(ctx).Err()
	}
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, rewrite)
	case *redis.Client:
		return rewrite(ctx, rdb)
	}
	return nil
}
