package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// maxSteps bounds the records of one answer.
const maxSteps = 1000

// Steps is the records of granted steps, from a step on, completed or not, without those that Redis has lost. A limit
// of 0, and any above 1000, is 1000.
func (s *Store) Steps(ctx context.Context, run rollout.RunName, from rollout.Step,
	limit int) ([]steprecord.StepRecord, error) {
	records, err := s.AllSteps(ctx, run, from, limit)
	return slices.DeleteFunc(records, func(r steprecord.StepRecord) bool {
		return r.LostRecord || r.LostBatch && !r.Done
	}), err
}

// AllSteps is Steps with those whose record or batch Redis has lost.
func (s *Store) AllSteps(ctx context.Context, run rollout.RunName, from rollout.Step,
	limit int) ([]steprecord.StepRecord, error) {
	granted, err := s.granted(ctx, run)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > maxSteps {
		limit = maxSteps
	}
	from = max(from, 0)
	to := min(granted, from+rollout.Step(limit))
	var found []*redis.MapStringStringCmd
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for k := from; k < to; k++ {
			found = append(found, p.HGetAll(ctx, s.stepKey(run, k)))
		}
		return nil
	})
	if err != nil {
		return nil, trouble("read steps", err)
	}
	return decoded(from, found)
}

// decoded is the records of steps from one on, in order. Most of what a diagnosis costs is to decode the groups of some
// hundred steps: all processors do.
func decoded(from rollout.Step, found []*redis.MapStringStringCmd) ([]steprecord.StepRecord, error) {
	records, faults := make([]steprecord.StepRecord, len(found)), make([]error, len(found))
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(len(found), runtime.GOMAXPROCS(0)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(found); i = int(next.Add(1)) - 1 {
				if len(found[i].Val()) > 0 {
					records[i], faults[i] = recordOf(from+rollout.Step(i), found[i].Val())
				}
			}
		})
	}
	running.Wait()
	kept := records[:0]
	for i, f := range found {
		switch {
		case faults[i] != nil:
			return nil, faults[i]
		case len(f.Val()) > 0: // else from before the buffer was restored
			kept = append(kept, records[i])
		}
	}
	return kept, nil
}

// Step is the record of one granted step.
func (s *Store) Step(ctx context.Context, run rollout.RunName, step rollout.Step) (steprecord.StepRecord, error) {
	fields, err := s.rdb.HGetAll(ctx, s.stepKey(run, step)).Result()
	if err != nil {
		return steprecord.StepRecord{}, trouble("read step", err)
	}
	if len(fields) > 0 {
		return recordOf(step, fields)
	}
	granted, err := s.granted(ctx, run)
	if err != nil {
		return steprecord.StepRecord{}, err
	}
	return steprecord.StepRecord{},
		rollout.Refuse(rollout.NoSuchStep, "run %s has no record of step %d; %d steps were given out", run, step, granted)
}

func (s *Store) granted(ctx context.Context, run rollout.RunName) (rollout.Step, error) {
	r, err := s.runFields(ctx, run, "granted")
	return rollout.Step(r.int(0)), err
}

// runFields is fields of a run, which is refused if it does not exist.
func (s *Store) runFields(ctx context.Context, run rollout.RunName, names ...string) (reply, error) {
	fields, err := s.rdb.HMGet(ctx, s.key(run, "run"), append(names, "spec")...).Result()
	if err != nil {
		return nil, trouble("read what is kept of a run", err)
	}
	if r := reply(fields); r.str(len(names)) != "" {
		return r, nil
	}
	return nil, noSuchRun(run)
}

func (s *Store) stepKey(run rollout.RunName, step rollout.Step) string {
	return s.key(run, "step:"+strconv.FormatInt(int64(step), 10))
}

// recordOf makes a step's record of what the scripts have kept.
func recordOf(step rollout.Step, f map[string]string) (steprecord.StepRecord, error) {
	number := func(name string) int64 { return words(f[name]).int(0) }
	generation := rollout.TrainerGeneration(number("generation"))
	record := steprecord.StepRecord{Step: step, Generation: generation, Done: f["done"] != ""}
	record.LostRecord, record.LostBatch = f["lost_record"] != "", f["lost"] != ""
	v := &record.Service
	v.Groups = []steprecord.GroupView{} // a record without its detail is a list of none
	v.AtClaim = words(f["counts"]).counts()
	v.Depth = int(number("depth"))
	v.GroupsPerStep = int(number("groups_per_step"))
	v.Version = rollout.PolicyVersion(number("version"))
	v.Trajectories = int(number("traj"))
	v.ReadyDepth = float64(v.AtClaim.Ready) / float64(max(v.GroupsPerStep, 1))
	stale := words(f["stale"])
	v.StalenessMin, v.StalenessMax = stale.int(0), stale.int(1)
	groups := float64(max(len(words(f["seqs"])), 1))
	v.StalenessMean = float64(stale.int(2)) / groups
	v.StalenessInFlightMean = float64(stale.int(3)) / groups
	v.StalenessInBufferMean = float64(stale.int(2)-stale.int(3)) / groups
	v.ZeroVarianceGroups = int(number("zero_variance"))
	for drops := words(f["drops"]); len(drops) > 1; drops = drops[2:] {
		if v.DroppedSoFar == nil {
			v.DroppedSoFar = map[rollout.Code]int64{}
		}
		v.DroppedSoFar[rollout.Code(drops.str(0))] = drops.int(1)
	}
	for _, part := range []struct {
		name   string
		packed bool
		into   any
	}{
		{"views", true, &v.Groups}, {"report", false, &record.Trainer}, {"fleet", false, &v.Fleet},
		{"starved", false, &v.StarvedBy}, {"engines", true, &v.Engines}, {"results", true, &v.Results},
	} {
		text := f[part.name]
		var err error
		if part.packed {
			text, err = unpackViews(text)
		}
		if err == nil && text != "" {
			err = json.Unmarshal([]byte(text), part.into)
		}
		if err != nil {
			return record, fmt.Errorf("record of step %d: %s: %w", step, part.name, err)
		}
	}
	for name, into := range map[string]*time.Time{"asked": &v.FirstAskedAt, "granted": &v.GrantedAt,
		"completed": &v.CompletedAt} {
		var err error
		if *into, err = readStamp(f[name]); err != nil {
			return record, fmt.Errorf("record of step %d: %s: %w", step, name, err)
		}
	}
	return record, nil
}
