package redisserver

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Finding is a Redis setting and its consequence.
type Finding struct {
	Level slog.Level
	Text  string
}

// Check checks how each node persists what is written to it. It refuses a node that may delete keys of its own accord:
// a batch that lacks a group, or an account that lacks a step, is worse than none. It reports what a crash would cost,
// as far as the node lets its settings be read.
func Check(ctx context.Context, rdb redis.UniversalClient) ([]Finding, error) {
	var mu sync.Mutex
	var all []Finding
	look := func(ctx context.Context, node *redis.Client) error {
		found, err := checkNode(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range found {
			f.Text = fmt.Sprintf("Redis at %s: %s", node.Options().Addr, f.Text)
			all = append(all, f)
		}
		return err
	}
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return all, rdb.ForEachMaster(ctx, look)
	case *redis.Client:
		return all, look(ctx, rdb)
	}
	return nil, nil
}

// Warnings lists the settings of a Redis that answers which lose what is written to it, those that Check refuses
// included.
func Warnings(ctx context.Context, rdb redis.UniversalClient) (warnings []string, err error) {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	found, refused := Check(ctx, rdb)
	if refused != nil {
		warnings = append(warnings, refused.Error())
	}
	for _, f := range found {
		if f.Level >= slog.LevelWarn {
			warnings = append(warnings, f.Text)
		}
	}
	return warnings, nil
}

func checkNode(ctx context.Context, node *redis.Client) ([]Finding, error) {
	settings := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "maxmemory-policy", "save"} {
		got, err := node.ConfigGet(ctx, name).Result()
		if err != nil {
			return []Finding{{slog.LevelDebug, fmt.Sprintf("its settings cannot be read (%v): whether it may delete keys, "+
				"and what a crash would cost, is for whoever runs it to know (docs/guarantees.md)", err)}}, nil
		}
		settings[name] = got[name]
	}
	if policy := settings["maxmemory-policy"]; policy != "" && policy != "noeviction" {
		return nil, fmt.Errorf("redis at %s has maxmemory-policy %s: when its memory is full it deletes keys of its own "+
			"choice, and with them groups of granted batches, the account of a run, or the lease of a worker; set it to "+
			"noeviction, with which writes are refused until there is room", node.Options().Addr, policy)
	}
	found := persistence(settings)
	if info, err := node.Info(ctx, "replication").Result(); err != nil || !strings.Contains(info, "master_replid") {
		found = append(found, Finding{slog.LevelWarn, "it does not answer INFO replication: that it was restarted or " +
			"failed over, and came back older, is noticed only by servers that knew more"})
	}
	return found, nil
}

// persistence says what a crash costs.
func persistence(settings map[string]string) []Finding {
	const repaired = "; runs then repair their accounts, and batches and ready groups that went with it are lost " +
		"(docs/guarantees.md)"
	switch {
	case settings["appendonly"] != "yes" && settings["save"] == "":
		return []Finding{{slog.LevelWarn, "appendonly is no and nothing is saved: a restart loses everything" + repaired}}
	case settings["appendonly"] != "yes":
		return []Finding{{slog.LevelWarn, "appendonly is no: a restart loses what was written since the last snapshot" +
			repaired}}
	case settings["appendfsync"] != "always":
		return []Finding{{slog.LevelInfo, fmt.Sprintf("appendfsync is %s: a power cut loses the last second or more%s",
			settings["appendfsync"], repaired)}}
	}
	return nil
}
