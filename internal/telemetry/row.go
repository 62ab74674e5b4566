package telemetry

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Row is an event as one flat row for a table-shaped sink: scalars under snake_case names with their units, and at
// most one level of maps where names are open-ended. The names are a contract with dashboards.
type Row map[string]any

// Flat makes an event a row. Lists are summed up: a sink that wants them reads Encode's JSON.
func Flat(e Event) Row {
	r := Row{}
	r.body(e.Body)
	r["kind"] = e.Body.Kind()
	r["_time"] = e.At.UTC().Format(time.RFC3339Nano)
	r["event_id"] = e.ID()
	r.text("run_id", string(e.Run))
	r.text("engine_id", string(e.Engine))
	return r
}

func (r Row) body(body Body) {
	switch b := body.(type) {
	case Audit:
		r.audit(b)
	case RunChanged:
		r["state"], r["change"] = b.State, b.Change
		r.text("reason", b.Reason)
	case StepCompleted:
		r.step(b.Record)
	case SignalChanged:
		r["collapsed"] = b.Signal.Collapsed
		r.signal(b.Signal)
	case BatchClaimed:
		r["step"], r["starved_s"] = b.Step, b.StarvedSec
		r["staleness_in_flight_mean"], r["staleness_in_buffer_mean"], r["flat_groups"] = b.StalenessInFlightMean, b.StalenessInBufferMean, b.FlatGroups
		r.counts(b.Counts)
	case BufferLevel:
		r["buffer_target"], r["starved_s"], r["window_s"] = b.Target, b.StarvedSec, b.WindowSec
		r["alarms"] = len(b.Alarms)
		r.text("throttle", string(b.Throttle))
		r.signal(b.Signal)
		r.counts(b.Counts)
	case AlarmChanged:
		r["raised"], r["code"] = b.Raised, b.Code
		r.text("failure", b.Text)
		r.text("reason", b.Advice)
	case GroupReady:
		r.group(b.Group)
		r["trajectories"], r["episodes_failed"] = b.Trajectories, b.Failed
	case GroupDropped:
		r["group_id"], r["code"] = b.Seq, b.Code
		r.lengths(b.Phases)
	case EpisodeFinished:
		r.episode(b)
	case EpisodeFailed:
		r["group_id"], r["sample"] = b.Ref.Seq, b.Ref.Sample
		r["code"], r["failure"], r["attempt"], r["final"] = b.Code, b.Failure, b.Attempt, b.Final
		r.usage(b.Usage)
	case AdapterLoaded:
		r["adapter"], r["policy_version"], r["adapter_load_s"] = b.Adapter, b.Version, b.Sec
		r.text("failure", b.Failure)
	case AdapterChanged:
		r["adapter"], r["policy_version"], r["path"] = b.Adapter, b.Version, b.Path
		r.text("reason", b.Reason)
	case PolicyPublished:
		r.policy(b.Policy)
	case EngineChanged:
		r["state"] = b.State
		r.text("reason", b.Reason)
	case EnginePaced:
		r["lagging"] = b.Slow != ""
		r.text("reason", b.Slow)
	case BreakerChanged:
		r["worker"], r["open"] = b.Worker, b.Open
		r.text("reason", b.Reason)
	case EngineSample:
		r.load(b.Load)
	case DispatchSample:
		r["window_s"], r["queued_requests"] = b.WindowSec, b.Queued
		r["in_flight_requests"], r["rejected_requests"] = sum(b.InFlight), sum(b.Rejected)
		r["input_tokens_per_s"], r["output_tokens_per_s"] = b.InputTPS, b.OutputTPS
		r.versions(b.ByVersion)
	}
}

func (r Row) audit(b Audit) {
	r["who"], r["role"], r["from"], r["what"], r["status"], r["request_id"] = b.Who, b.Role, b.From, b.What, b.Status, b.RequestID
	r.text("target", b.Target)
	r.text("code", b.Code)
	r.text("before", settings(b.Before))
	r.text("after", settings(b.After))
}

// settings is names and values as one text, in the order of their names.
func settings(values map[string]string) string {
	parts := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+values[name])
	}
	return strings.Join(parts, ", ")
}

// versions tells of a run's versions how many were sampled from, and what the newest did. A field for each would
// fill a sink with fields.
func (r Row) versions(rates map[rollout.PolicyVersion]TokenRate) {
	if len(rates) == 0 {
		return
	}
	newest := slices.Max(slices.Collect(maps.Keys(rates)))
	r["policy_versions"], r["policy_version"] = len(rates), newest
	r["newest_input_tokens_per_s"], r["newest_output_tokens_per_s"] = rates[newest].InputTPS, rates[newest].OutputTPS
}

func (r Row) step(s rollout.StepRecord) {
	r["step"], r["epoch"], r["wall_s"] = s.Step, s.Epoch, s.Trainer.WallSec
	r.phases(s.Trainer)
	if len(s.Trainer.Metrics) > 0 {
		r["metrics"] = s.Trainer.Metrics
	}
	v := s.Service
	r["starved_s"] = max(0, v.GrantedAt.Sub(v.FirstAskedAt).Seconds())
	r.counts(v.AtClaim)
	r["ready_depth"], r["buffer_depth"], r["groups_per_step"] = v.ReadyDepth, v.Depth, v.GroupsPerStep
	r["policy_version"] = v.Version
	r["staleness_min"], r["staleness_max"], r["staleness_mean"] = v.StalenessMin, v.StalenessMax, v.StalenessMean
	r["staleness_in_flight_mean"], r["staleness_in_buffer_mean"] = v.StalenessInFlightMean, v.StalenessInBufferMean
	r["groups"], r["flat_groups"], r["trajectories"] = len(v.Groups), v.FlatGroups, v.Trajectories
	var used rollout.Usage
	for _, g := range v.Groups {
		used = used.Add(g.Usage)
	}
	r.usage(used)
	f := v.Fleet
	r["fleet_window_s"], r["fleet_engines"], r["fleet_busy_share"], r["fleet_slot_share"] = f.WindowSec, f.Engines, f.BusyShare, f.SlotShare
	r["fleet_in_flight"], r["fleet_queued_requests"] = f.InFlight, f.QueuedRequests
	r["input_tokens_per_s"], r["output_tokens_per_s"] = f.InputTPS, f.OutputTPS
}

// phases names the known phases apart; the trainer's own, and what no phase accounts for, are "other".
func (r Row) phases(t rollout.StepReport) {
	named := 0.0
	for _, p := range rollout.Phases() {
		if p != rollout.PhaseOther {
			r["phase_"+string(p)+"_s"] = t.Phases[p]
			named += t.Phases[p]
		}
	}
	r["phase_other_s"] = max(0, t.WallSec-named)
}

func (r Row) group(g rollout.GroupView) {
	r["group_id"], r["policy_version"] = g.Seq, g.MinVersion
	r["queue_s"] = seconds(g.Times.LaunchedAt, g.Times.StartedAt)
	r["duration_s"] = seconds(g.Times.StartedAt, g.Times.ReadyAt)
	r["episodes"], r["episode_max_s"] = len(g.EpisodeSec), longest(g.EpisodeSec)
	r["model_max_s"], r["dispatch_queue_max_s"], r["env_max_s"] = longest(g.ModelSec), longest(g.QueueSec), longest(g.EnvSec)
	r["flat"] = g.Flat
	r.lengths(g.Phases)
	r.usage(g.Usage)
}

func (r Row) episode(b EpisodeFinished) {
	r["group_id"], r["sample"] = b.Ref.Seq, b.Ref.Sample
	r["duration_s"], r["model_s"], r["env_s"], r["queue_s"] = b.WallSec, b.ModelSec, b.EnvSec, b.QueueSec
	r["phases"], r["attempts"] = b.Phases, b.Attempts
	r.usage(b.Usage)
	if len(b.Counts) > 0 {
		r["counts"] = b.Counts
	}
}

func (r Row) policy(p rollout.Policy) {
	r["policy_version"], r["adapter"], r["path"], r["state"] = p.Version, p.Adapter, p.Path, p.State
	r.text("digest", p.Digest)
	r.text("reason", p.Reason)
	r["engines"], r["adapter_load_max_s"] = len(p.LoadSec), longest(slices.Collect(maps.Values(p.LoadSec)))
}

func (r Row) load(l rollout.EngineLoad) {
	r["running_requests"], r["waiting_requests"], r["kv_usage"] = l.Running, l.Waiting, l.KVUsage
	r["input_tokens_per_s"], r["output_tokens_per_s"], r["window_s"] = l.InputTPS, l.OutputTPS, l.WindowSec
	r["prefix_hit_share"], r["preemptions"], r["queue_mean_s"] = l.PrefixHitShare, l.Preemptions, l.QueueSec
	if l.UsageWindowSec > 0 {
		r["usage_input_error"], r["usage_output_error"], r["usage_window_s"] = l.UsageInputError, l.UsageOutputError, l.UsageWindowSec
	}
}

func (r Row) counts(c rollout.BufferCounts) {
	r["buffer_queued"], r["buffer_in_flight"], r["buffer_ready"], r["buffer_claimed"] = c.Queued, c.InFlight, c.Ready, c.Claimed
	r["buffer_completed"], r["buffer_dropped"], r["buffer_bytes"] = c.Completed, c.Dropped, c.Bytes
}

// signal is left out before the first group.
func (r Row) signal(s rollout.Signal) {
	if s.Groups > 0 {
		r["signal_groups"], r["signal_flat_groups"] = s.Groups, s.Flat
	}
}

// lengths sums up the lengths of a group's games, where they are known.
func (r Row) lengths(phases []int) {
	if len(phases) == 0 {
		return
	}
	total := 0
	for _, n := range phases {
		total += n
	}
	r["phases_mean"] = float64(total) / float64(len(phases))
}

func (r Row) usage(u rollout.Usage) {
	r["requests"], r["input_tokens"], r["output_tokens"], r["cached_tokens"] = u.Requests, u.InputTokens, u.OutputTokens, u.CachedTokens
	r["exec_s"], r["dispatch_queue_s"], r["repeated_tokens"] = u.ExecSec, u.QueueSec, u.RepeatedTokens
}

// text leaves empty texts out.
func (r Row) text(name, value string) {
	if value != "" {
		r[name] = value
	}
}

// seconds is the time from a to b; 0 when one of them is not known.
func seconds(a, b time.Time) float64 {
	if a.IsZero() || b.IsZero() {
		return 0
	}
	return b.Sub(a).Seconds()
}

func longest(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Max(values)
}

func sum[K comparable, V int | int64](m map[K]V) V {
	var total V
	for _, v := range m {
		total += v
	}
	return total
}
