package fleet

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// Desired is what an engine should be like.
type Desired struct {
	Drain    bool
	Adapters []Adapter
	Retired  []string // adapters to be unloaded
}

// Seen is what one look at an engine found.
type Seen struct {
	Fault  string // why it gave no answer; empty if it answered
	Misses int    // looks without an answer in a row, this one included
	Models []vllm.Model
	Idle   bool // known to have nothing running or waiting
	// Failed holds the adapters that could not be loaded and are not to be tried now, with the reason.
	Failed map[string]string
	Proven bool   // a canary has just been answered
	Broken string // why a canary was not; empty: none was sent, or it tells nothing
}

// Plan is what to make of an engine, and what to do about it.
type Plan struct {
	State    rollout.EngineState
	Reason   string
	Models   []string // base models served
	Adapters []string // served, except those that it serves from another path than wanted
	Load     []Adapter
	Unload   []string
	Canary   bool // nothing is missing but the proof that it makes completions
}

// Decide compares what an engine should be like with what it was and is. An engine is lost after
// lostAfter looks without an answer. It becomes ready when it serves every wanted adapter and has answered a canary; once
// ready it stays so while a new adapter is being loaded, but not when one that it had is gone, for then it was restarted.
// One that a canary found broken is quarantined until a canary is answered.
func Decide(want Desired, was Observation, seen Seen, lostAfter int) Plan {
	if seen.Fault != "" {
		return unanswered(was, seen, lostAfter)
	}
	p := Plan{Models: baseModels(seen.Models)}
	roots := adapterRoots(seen.Models)
	missing, trouble := p.compare(want, roots, seen.Failed)
	p.Unload = unloadable(want, roots, seen.Idle)
	if want.Drain {
		p.State, p.Load = rollout.EngineDraining, nil
		if seen.Idle {
			p.Reason = "drained: nothing is running"
		}
		return p
	}
	if seen.Broken != "" || was.State == rollout.EngineQuarantined && !seen.Proven {
		p.State, p.Reason, p.Load = rollout.EngineQuarantined, seen.Broken, nil
		if p.Reason == "" {
			p.Reason = was.Reason
		}
		return p
	}
	restarted := lostAdapter(missing, was.Adapters)
	switch {
	case len(missing) == 0 && (was.State == rollout.EngineReady || seen.Proven):
		p.State = rollout.EngineReady
	case len(missing) == 0:
		p.State, p.Reason, p.Canary = rollout.EngineJoining, "waits for a completion to succeed", true
		if was.State == rollout.EngineLoading {
			p.State = rollout.EngineLoading
		}
	case was.State == rollout.EngineReady && restarted == "":
		p.State, p.Reason = rollout.EngineReady, trouble
	case trouble != "":
		p.State, p.Reason = rollout.EngineLoading, trouble
	case restarted != "":
		p.State, p.Reason = rollout.EngineLoading, fmt.Sprintf("restarted: adapter %s is gone; loading again", restarted)
	default:
		p.State, p.Reason = rollout.EngineLoading, "loading adapters: "+strings.Join(missing, ", ")
	}
	return p
}

// unanswered keeps the state until the engine has been silent for too long.
func unanswered(was Observation, seen Seen, lostAfter int) Plan {
	p := Plan{State: was.State, Reason: was.Reason, Models: was.Models, Adapters: was.Adapters}
	if p.State == "" {
		p.State = rollout.EngineJoining
	}
	if seen.Misses >= lostAfter {
		return Plan{State: rollout.EngineLost, Reason: seen.Fault, Models: was.Models}
	}
	if p.State == rollout.EngineJoining || p.State == rollout.EngineLoading || p.State == rollout.EngineLost {
		p.Reason = seen.Fault
	}
	return p
}

// compare sorts the wanted adapters into served, to be loaded, and in trouble; missing is all but the served. Adapters that nobody
// wants yet count as served: a publication loads everywhere before it wants.
func (p *Plan) compare(want Desired, roots map[string]string, failed map[string]string) (missing []string, trouble string) {
	served := maps.Clone(roots)
	for _, a := range want.Adapters {
		root, loaded := roots[a.Name]
		if loaded && samePath(root, a.Path) {
			continue
		}
		delete(served, a.Name)
		missing = append(missing, a.Name)
		why := failed[a.Name]
		if loaded {
			// Unloading and loading again under the same name would serve the old weights' prefix cache.
			why = fmt.Sprintf("adapter %s is served from %s, not from %s: restart the engine, or publish under a new run name", a.Name, root, a.Path)
		}
		switch {
		case why == "":
			p.Load = append(p.Load, a)
		case trouble == "":
			trouble = why
		}
	}
	p.Adapters = slices.Sorted(maps.Keys(served))
	return missing, trouble
}

// unloadable is what the engine serves and should not: retired adapters, and all of ours once it is drained.
func unloadable(want Desired, roots map[string]string, idle bool) []string {
	var names []string
	for _, name := range want.Retired {
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
