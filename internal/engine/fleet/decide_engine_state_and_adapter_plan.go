package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Desired is an engine's desired state.
type Desired struct {
	Drain    bool
	Adapters []Adapter
	Retired  []string // adapters to be unloaded
	unfit    []string // adapters of other base models, to be unloaded, too
}

// Seen is the result of one look at an engine.
type Seen struct {
	Fault  string // why it gave no answer; empty if it answered
	Misses int    // looks without an answer in a row, this one included
	Models []vllm.Model
	Idle   bool // known to have nothing running or waiting
	// Failed holds the adapters that could not be loaded and are not to be tried now, or that take too long, with the
	// reason.
	Failed  map[string]string
	Loading map[string]bool       // adapters whose load has begun
	Records map[string]LoadRecord // what the engine was asked to load, by name; nil: not known
	Changed map[string]string     // adapters whose files are not those that were published, and how
	Proven  bool                  // a canary has just been answered
	Broken  string                // why a canary was not; empty: none was sent, or it proves nothing
	Overdue bool                  // it has been loading for as long as an engine is waited for
}

// Plan is an engine's new state, and the actions on it.
type Plan struct {
	State    enginestate.EngineState
	Reason   string
	Models   []string // base models served
	Adapters []string // served, except those that are not the weights wanted
	// Troubles are the adapters that it should serve and cannot, and those that have changed, with the reason.
	Troubles map[string]string
	Proofs   map[string]enginestate.AdapterProof // of what it serves or should serve, where there are probes
	Load     []Adapter
	Unload   []string
	Canary   bool // nothing is missing but the proof that it makes completions
}

// Decide compares what an engine should be like with what it was and is. An engine is lost after lostAfter looks
// without an answer. One that joins or comes back is ready when it has answered a canary and every wanted adapter
// is loaded or cannot be: an adapter in trouble is its run's affair, and the engine is ready for everything else.
// It is also ready once it is overdue: a run may have hundreds of adapters, and goes on loading them behind the
// others. Once ready it stays so while a new adapter is being loaded, but not when one that it had is gone, for
// then it was restarted. One that a canary found broken is quarantined until a canary is answered.
func Decide(want Desired, was Observation, seen Seen, lostAfter int) Plan {
	if seen.Fault != "" {
		return unanswered(was, seen, lostAfter)
	}
	p := Plan{Models: baseModels(seen.Models)}
	roots := adapterRoots(seen.Models)
	want = want.of(p.Models)
	missing, waiting := p.compare(want, roots, seen)
	p.Unload = unloadable(want, roots, seen.Idle)
	if want.Drain {
		p.State, p.Load = enginestate.EngineDraining, nil
		if seen.Idle {
			p.Reason = "drained: nothing is running"
		}
		return p
	}
	if seen.Broken != "" || was.State == enginestate.EngineQuarantined && !seen.Proven {
		p.State, p.Reason, p.Load = enginestate.EngineQuarantined, seen.Broken, nil
		p.Reason = cmp.Or(p.Reason, was.Reason)
		return p
	}
	restarted := lostAdapter(missing, was.Adapters)
	switch {
	case was.State == enginestate.EngineReady && otherModels(was.Models, p.Models):
		p.State = enginestate.EngineLoading
		p.Reason = fmt.Sprintf("restarted: serves %s, and served %s", units.Few(p.Models, 2), units.Few(was.Models, 2))
	case was.State == enginestate.EngineReady && restarted == "":
		p.State, p.Reason = enginestate.EngineReady, p.trouble()
	case was.State == enginestate.EngineReady:
		p.State, p.Reason = enginestate.EngineLoading, fmt.Sprintf("restarted: adapter %s is gone; loading again", restarted)
	case len(waiting) > 0 && !seen.Overdue:
		p.State, p.Reason = enginestate.EngineLoading, "loading adapters: "+units.Few(waiting, 4)
	case seen.Proven:
		p.State, p.Reason = enginestate.EngineReady, p.trouble()
	default:
		p.State, p.Reason, p.Canary = enginestate.EngineStarting, "waits for a completion to succeed", true
		if was.State == enginestate.EngineLoading {
			p.State = enginestate.EngineLoading
		}
	}
	return p
}

// of is what an engine of these base models should be like: adapters of others are none of its, and are unloaded.
func (d Desired) of(models []string) Desired {
	own := Desired{Drain: d.Drain, Retired: d.Retired}
	for _, a := range d.Adapters {
		if a.fits(models) {
			own.Adapters = append(own.Adapters, a)
			continue
		}
		own.unfit = append(own.unfit, a.Name)
	}
	return own
}

// otherModels reports whether an engine serves other base models than before.
func otherModels(before, now []string) bool {
	kept := slices.ContainsFunc(before, func(m string) bool { return slices.Contains(now, m) })
	return len(before) > 0 && len(now) > 0 && !kept
}

// trouble describes the problems of a ready engine's adapters, for people.
func (p *Plan) trouble() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(p.Troubles)) {
		verb := "lacks"
		if slices.Contains(p.Adapters, name) {
			verb = "serves"
		}
		texts = append(texts, fmt.Sprintf("%s %s: %s", verb, name, p.Troubles[name]))
	}
	const shown = 2
	if more := len(texts) - shown; more > 0 {
		texts = append(texts[:shown], fmt.Sprintf("and %d more adapters", more))
	}
	return strings.Join(texts, "; ")
}

// unanswered keeps the state until the engine has been silent for too long.
func unanswered(was Observation, seen Seen, lostAfter int) Plan {
	p := Plan{State: was.State, Reason: was.Reason, Models: was.Models, Adapters: was.Adapters,
		Proofs: was.Proofs}
	p.State = cmp.Or(p.State, enginestate.EngineStarting)
	if seen.Misses >= lostAfter {
		return Plan{State: enginestate.EngineLost, Reason: seen.Fault, Models: was.Models}
	}
	if p.State == enginestate.EngineStarting || p.State == enginestate.EngineLoading || p.State == enginestate.EngineLost {
		p.Reason = seen.Fault
	}
	return p
}

// compare sorts the wanted adapters into served, to be loaded, and in trouble. missing are those that the engine lacks;
// waiting are those not served that may yet be loaded, or proven. Adapters that are not wanted yet count as served once
// they are proven: a publication loads everywhere before it makes the version wanted.
func (p *Plan) compare(want Desired, roots map[string]string, seen Seen) (missing, waiting []string) {
	served := maps.Clone(roots)
	for _, name := range want.unfit {
		delete(served, name)
	}
	p.Troubles, p.Proofs = map[string]string{}, map[string]enginestate.AdapterProof{}
	for name := range roots {
		if record, ours := seen.Records[name]; ours && !record.Foreign && !record.Reload && !record.proven() {
			delete(served, name)
		}
	}
	for _, a := range want.Adapters {
		if record, ours := seen.Records[a.Name]; ours && record.proof().Verdict != enginestate.NoProbes {
			p.Proofs[a.Name] = record.proof()
		}
		root, listed := roots[a.Name]
		changed := seen.Changed[a.Name]
		if listed && trusted(a, root, seen.Records) {
			if changed != "" {
				p.Troubles[a.Name] = changed
			}
			continue
		}
		delete(served, a.Name)
		again := listed && mustReload(a, root, seen.Records)
		if !again {
			missing = append(missing, a.Name)
		}
		why := seen.Failed[a.Name]
		switch {
		case listed && !again: // Unloading and loading again under the same name would serve the other weights' prefix cache.
			why = foreign(a, root)
		case changed != "":
			why = changed
		}
		if why != "" {
			p.Troubles[a.Name] = why
			continue
		}
		waiting = append(waiting, a.Name)
		if !seen.Loading[a.Name] {
			p.Load = append(p.Load, a)
		}
	}
	p.Load = inTurn(p.Load)
	p.Adapters = slices.Sorted(maps.Keys(served))
	return missing, waiting
}

// inTurn takes the adapters of the runs in turn, each run's newest first, so that a run with many delays no other
// one's.
func inTurn(adapters []Adapter) []Adapter {
	place, of := map[string]int{}, map[rollout.RunName]int{}
	for _, a := range slices.Backward(adapters) {
		place[a.Name] = of[a.Run]
		of[a.Run]++
	}
	slices.SortStableFunc(adapters, func(a, b Adapter) int { return cmp.Compare(place[a.Name], place[b.Name]) })
	return adapters
}

// trusted reports whether what an engine lists under an adapter's name are the adapter's weights: from its path, loaded
// by this deployment when they were these, and proven.
func trusted(a Adapter, root string, records map[string]LoadRecord) bool {
	if !samePath(root, a.Path) {
		return false
	}
	if records == nil {
		return true
	}
	record, ok := records[a.Name]
	return ok && record.isOf(a) && record.proven()
}

// mustReload reports whether what an engine lists from an adapter's path is to be loaded again: the record that would
// say that it is ours may be lost, or the load did not come as far as its proof.
func mustReload(a Adapter, root string, records map[string]LoadRecord) bool {
	record, ok := records[a.Name]
	return ok && samePath(root, a.Path) && (record.Reload || record.isOf(a) && !record.proven())
}

// unloadable lists what the engine serves and should not: adapters that are retired or of another base model, and all
// of ours once it is drained.
func unloadable(want Desired, roots map[string]string, idle bool) []string {
	var names []string
	for _, name := range slices.Concat(want.Retired, want.unfit) {
		if _, loaded := roots[name]; loaded {
			names = append(names, name)
		}
	}
	if want.Drain && idle {
		for _, a := range want.Adapters {
			if _, loaded := roots[a.Name]; loaded {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

func lostAdapter(missing, had []string) string {
	for _, name := range missing {
		if slices.Contains(had, name) {
			return name
		}
	}
	return ""
}

func baseModels(models []vllm.Model) []string {
	var ids []string
	for _, m := range models {
		if !m.Adapter() {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func adapterRoots(models []vllm.Model) map[string]string {
	roots := map[string]string{}
	for _, m := range models {
		if m.Adapter() {
			roots[m.ID] = m.Root
		}
	}
	return roots
}

func samePath(a, b string) bool { return path.Clean(a) == path.Clean(b) }
