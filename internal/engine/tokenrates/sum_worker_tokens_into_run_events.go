// Package tokenrates counts the tokens of answered requests by run, engine, policy version and adapter, and tells of
// them in rows that add up to the engines' own counters. Workers report what they have counted since they began, about
// four times a second; the totals are in Redis, so that a worker that is killed loses a moment and not a window. One
// server takes them out and tells of them in the same script, so that each token is in one row. Start reading at
// Counts.
package tokenrates

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// Counts is the counts of all runs, in Redis. The keys of a run share its hash tag.
type Counts struct {
	rdb    redis.UniversalClient
	prefix string
}

// New keeps counts under the buffer's prefix.
func New(rdb redis.UniversalClient, prefix string) *Counts { return &Counts{rdb: rdb, prefix: prefix} }

func (c *Counts) key(run rollout.RunName) string { return c.prefix + ":{" + string(run) + "}:tokens" }

//go:embed report.lua
var reportLua string

//go:embed take.lua
var takeLua string

var (
	reportScript = redisscript.New(reportLua)
	takeScript   = redisscript.New("local base = string.sub(KEYS[1], 1, -7)\n" + store.Lua() + takeLua)
)

// tallies is the order of the counts of a part.
func tallies(u rollout.Usage) [4]int64 {
	return [4]int64{u.InputTokens, u.OutputTokens, u.CachedTokens, u.Requests}
}

// Report reports what the good answers to a worker's requests of a run have used since the worker began; before is what
// it reported when that last succeeded. The second call with the same usage changes nothing. Of a run that was deleted
// nothing is kept.
func (c *Counts) Report(ctx context.Context, run rollout.RunName, worker string,
	before, now map[rollout.UsagePart]rollout.Usage,
) error {
	was, err := encode(before)
	if err != nil {
		return err
	}
	is, err := encode(now)
	if err != nil {
		return err
	}
	keys := []string{c.key(run), c.prefix + ":{" + string(run) + "}:gone"}
	if err := reportScript.Run(ctx, c.rdb, keys, worker, was, is).Err(); err != nil {
		return fmt.Errorf("report tokens of run %s: %w", run, err)
	}
	return nil
}

func encode(usage map[rollout.UsagePart]rollout.Usage) ([]byte, error) {
	counts := make(map[string][4]int64, len(usage))
	for p, u := range usage {
		counts[fieldOf(p)] = tallies(u)
	}
	return json.Marshal(counts)
}

// field is a part's name in Redis.
func fieldOf(p rollout.UsagePart) string {
	return fmt.Sprintf("%d %s %s", p.Version, p.Engine, p.Adapter)
}

func partOf(field string) (rollout.UsagePart, bool) {
	words := strings.SplitN(field, " ", 3)
	if len(words) < 3 {
		return rollout.UsagePart{}, false
	}
	v, err := strconv.ParseInt(words[0], 10, 64)
	p := rollout.UsagePart{Engine: rollout.EngineID(words[1]), Version: rollout.PolicyVersion(v), Adapter: words[2]}
	return p, err == nil
}

// Every is the interval at which a run's tokens are written to its events.
const Every = 15 * time.Second

// Tell moves the counts since the last call into an event of the run, in one step: if two callers do so at once, the
// second changes nothing. It does so when Every has passed, or at once with last: the run is over. Workers not in known
// have nothing more to report.
func (c *Counts) Tell(
	ctx context.Context, run rollout.RunName, now time.Time, known []enginestate.Worker, last bool,
) error {
	fields, err := c.rdb.HGetAll(ctx, c.key(run)).Result()
	if err != nil {
		return fmt.Errorf("read tokens of run %s: %w", run, err)
	}
	since, _ := strconv.ParseInt(fields["since"], 10, 64) // empty: nothing was told yet
	window := now.Sub(time.UnixMilli(since))
	if since == 0 || window <= 0 {
		window = Every
	}
	if len(fields) == 0 || window < Every && !last {
		return nil
	}
	args := []any{fields["since"], now.UnixMilli()}
	args = append(args, gone(fields, known)...)
	for _, part := range parts(fields) {
		count := func(i int) int64 {
			n, _ := strconv.ParseInt(fields[fmt.Sprintf("%d/%s", i, fieldOf(part))], 10, 64) // the script's own
			return n
		}
		b, err := telemetry.Encode(telemetry.Event{
			At: now, Run: run, Engine: part.Engine,
			Key: fmt.Sprintf("%s/tokens/%d/%d/%s", run, now.UnixMilli(), part.Version, part.Adapter),
			Body: telemetry.TokenRates{
				Version: part.Version, Adapter: part.Adapter, WindowSec: window.Seconds(),
				InputTokens: count(1), OutputTokens: count(2), CachedTokens: count(3), Requests: count(4),
			},
		})
		if err != nil {
			return fmt.Errorf("tell of the tokens of run %s: %w", run, err)
		}
		args = append(args, fieldOf(part), count(1), count(2), count(3), count(4), b)
	}
	if err := takeScript.Run(ctx, c.rdb, []string{c.key(run)}, args...).Err(); err != nil {
		return fmt.Errorf("tell of the tokens of run %s: %w", run, err)
	}
	return nil
}

// gone lists the workers that only the counts remember, after their number.
func gone(fields map[string]string, known []enginestate.Worker) []any {
	names := []any{0}
	for name := range fields {
		id, is := strings.CutPrefix(name, "worker/")
		if is && !slices.ContainsFunc(known, func(w enginestate.Worker) bool { return w.ID == id }) {
			names = append(names, name)
		}
	}
	names[0] = len(names) - 1
	return names
}

// parts is those of which something was counted, in an order.
func parts(fields map[string]string) []rollout.UsagePart {
	var all []rollout.UsagePart
	for name := range fields {
		if field, is := strings.CutPrefix(name, "4/"); is {
			if p, ok := partOf(field); ok {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b rollout.UsagePart) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Adapter, b.Adapter))
	})
	return all
}
