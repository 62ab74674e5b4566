package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/kit/eventscript"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestEngineScripts replays testdata/*.script: what is done about an engine, look by look.
func TestEngineScripts(t *testing.T) {
	eventscript.Run(t, "testdata/*.script", func() func(*eventscript.Event) (string, error) {
		s := engineScript{cfg: KeeperConfig{}.withDefaults()}
		return s.play
	})
}

// engineScript is one engine, and what is remembered of it.
type engineScript struct {
	cfg    KeeperConfig
	health engineHealth
	facts  facts
	misses int
}

// play takes one of
//
//	engine [state=S] [reason=R] [had=A,...]                 an engine that was seen so last
//	want [adapters=A,...] [others=A,...] [retired=A,...] [recorded] [drain] [leave] [now]
//	AT silent                                               a look without an answer
//	AT look [base=M] [serves=A,...] [loading=A,...] [failed=A:R] [changed=A:R] [records=A:D] [unrecorded] [idle] [overdue] [empty]
//	AT listed ...                                           as look, after loads and unloads
//	AT canary [undecided|doubtful|broken]                   the end of the canary that was sent
//
// where AT is in seconds, M the base model, others are adapters of the base model "other" and the rest of "base", A an
// adapter such as v1 (old-v1: other weights under its name), R a reason and D a digest.
func (s *engineScript) play(e *eventscript.Event) (string, error) {
	switch e.Word(0) {
	case "engine":
		*s = engineScript{cfg: s.cfg}
		s.facts.was = Observation{
			State: enginestate.EngineState(e.Text("state")), Reason: e.Text("reason"), Adapters: e.List("had"),
			Since: time.Unix(0, 0),
		}
		return "", nil
	case "want":
		s.facts.want = Desired{Drain: is(e, "drain") || is(e, "leave"), Retired: e.List("retired")}
		s.facts.member = Member{Leave: is(e, "leave"), Now: is(e, "now")}
		for _, name := range e.List("adapters") {
			a := Adapter{Run: "demo", Name: name, Path: "/adapters/" + name, Digest: "d", Base: "base"}
			s.facts.want.Adapters = append(s.facts.want.Adapters, a)
		}
		for _, name := range e.List("others") {
			a := Adapter{Run: "demo", Name: name, Path: "/adapters/" + name, Digest: "d", Base: "other"}
			s.facts.want.Adapters = append(s.facts.want.Adapters, a)
		}
		return "", nil
	}
	sec, err := strconv.Atoi(e.Word(0))
	if err != nil {
		return "", err
	}
	now := time.Unix(int64(sec), 0)
	switch e.Word(1) {
	case "silent":
		s.misses++
		s.facts.stage, s.facts.seen = looked, Seen{Fault: "no answer", Misses: s.misses}
	case "look":
		s.misses = 0
		s.facts.stage, s.facts.seen = looked, seen(e)
	case "listed":
		s.facts.stage, s.facts.seen = adaptersChanged, seen(e)
	case "canary":
		verdicts := map[string]verdict{"": proven, "undecided": undecided, "doubtful": doubtful, "broken": broken}
		s.facts.stage, s.facts.canary = canaryEnded, canaryEnd{verdicts[e.Word(2)], errors.New("no tokens")}
	default:
		return "", fmt.Errorf("no such event")
	}
	var out strings.Builder
	for _, c := range s.health.decide(now, s.facts, &s.cfg) {
		out.WriteString(s.perform(now, c) + "\n")
	}
	return out.String(), nil
}

func is(e *eventscript.Event, word string) bool { return slices.Contains(e.Words, word) }

// seen is what an event says that was seen of the engine.
func seen(e *eventscript.Event) Seen {
	pairs := func(name string) map[string]string {
		m := map[string]string{}
		for _, pair := range e.List(name) {
			k, v, _ := strings.Cut(pair, ":")
			m[k] = v
		}
		return m
	}
	base := cmp.Or(e.Text("base"), "base")
	s := Seen{
		Models: []vllm.Model{{ID: base, Root: base}}, Idle: is(e, "idle"), Overdue: is(e, "overdue"),
		Failed: pairs("failed"), Changed: pairs("changed"), Loading: map[string]bool{},
	}
	if is(e, "empty") {
		s.Models = nil
	}
	for _, name := range e.List("serves") {
		id, other := strings.CutPrefix(name, "old-")
		root := "/adapters/" + id + "/"
		if other {
			root = "/old/" + id
		}
		s.Models = append(s.Models, vllm.Model{ID: id, Root: root, Parent: base})
	}
	for _, name := range e.List("loading") {
		s.Loading[name] = true
	}
	if is(e, "unrecorded") || e.Text("records") != "" {
		s.Records = map[string]LoadRecord{}
	}
	for name, digest := range pairs("records") {
		s.Records[name] = LoadRecord{Path: "/adapters/" + name, Digest: digest,
			Proof: &enginestate.AdapterProof{Verdict: enginestate.NoProbes}}
	}
	return s
}

// perform does what a driver would keep of a command, and shows it.
func (s *engineScript) perform(now time.Time, c command) string {
	switch c := c.(type) {
	case storePlan:
		was := &s.facts.was
		if c.State != was.State {
			was.Since = now
		}
		was.State, was.Reason, was.Models, was.Adapters = c.State, c.Reason, c.Models, c.Adapters
		return strings.TrimSuffix(fmt.Sprintf("%s: %s", c.State, c.Reason), ": ")
	case changeAdapters:
		var load []string
		for _, a := range c.load {
			load = append(load, a.Name)
		}
		return fmt.Sprintf("load %s, unload %s",
			cmp.Or(strings.Join(load, " "), "none"), cmp.Or(strings.Join(c.unload, " "), "none"))
	case sendCanary:
		return "send a canary to " + c.model
	case leaveFleet:
		return "leave the fleet"
	}
	return "?"
}
