package buffer_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redistest"
)

// BenchmarkPurge deletes and purges a run of many steps with as many groups as MILLRACE_PURGE_GROUPS says each, made by
// the scripts that make them in earnest, and reports how long the slowest command held Redis up.
func BenchmarkPurge(b *testing.B) {
	steps, per := 1000, 64
	if text := os.Getenv("MILLRACE_PURGE_STEPS"); text != "" {
		_, _ = fmt.Sscan(text, &steps) // a number, or the default
	}
	rdb := redistest.Real(b)
	f := open(b, rdb, spec(per, steps+1))
	for step := range steps {
		for i := range per {
			f.ready(rollout.PolicyVersion(step), step*per+i)
		}
		f.claim(step, 0)
		f.complete(step, 0)
	}
	f.ok(rdb.ConfigSet(f.ctx, "slowlog-log-slower-than", "1000").Err())
	f.ok(rdb.Do(f.ctx, "SLOWLOG", "RESET").Err())
	slowest := longestPing(b, rdb, func() { time.Sleep(200 * time.Millisecond) })
	b.ReportMetric(slowest.Seconds()*1e3, "idle-longest-ping-ms")
	began := time.Now()
	f.ok(f.Delete(f.ctx, rollout.RunName(run)))
	b.ReportMetric(time.Since(began).Seconds()*1e3, "delete-ms")
	slowest = longestPing(b, rdb, func() { f.ok(f.Purge(f.ctx, run)) })
	b.ReportMetric(slowest.Seconds()*1e3, "longest-ping-ms")
	b.ReportMetric(time.Since(began).Seconds()*1e3, "all-ms")
	slow, err := rdb.SlowLogGet(f.ctx, 128).Result()
	f.ok(err)
	longest := redis.SlowLog{}
	for _, s := range slow {
		if s.Duration > longest.Duration {
			longest = s
		}
	}
	b.ReportMetric(longest.Duration.Seconds()*1e3, "slowest-command-ms")
	b.Logf("slowest: %v %.80q", longest.Duration, fmt.Sprint(longest.Args))
}

// longestPing is the longest that another client waits for an answer while something is done.
func longestPing(b *testing.B, rdb redis.UniversalClient, do func()) time.Duration {
	done, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			began := time.Now()
			if err := rdb.Ping(b.Context()).Err(); err != nil {
				b.Error(err)
			}
			most = max(most, time.Since(began))
			select {
			case <-done:
				longest <- most
				return
			default:
			}
		}
	}()
	do()
	close(done)
	return <-longest
}
