package dispatch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/eventscript"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// TestScripts replays testdata/*.script: events, and below each the commands that it brought.
//
//	> config max_queued=2 max_tries=2 suspect_after=3 affinity=8 no_engine=60s worker=w1
//	> [+1s] engine a limit=2 models=m adapters=m-v1,m-v2 slots=1 elsewhere=4
//	> [+1s] sample a running=8 waiting=4 kv=0.5 preempted=1 life=now
//	> [+1s] submit 1..3 run=r group=0 sample=0 model=m prompt=100 output=20 deadline=5s home=a
//	> [+1s] served 1 3 | refused 1 | unfit 1 | overloaded 1 retry=2s | missing 1 | aborted 1 | failed 1 code=x | timedout 1 | broken 1
//	> [+1s] cancel 1 | drain a | down a | probed a ok | probed a dead | over r | tick | stats
//	> [+1s] rules r policy=round_robin per_engine=1 slack=2 group=3 slots=1 order=arrival ageing=5 queue=per_engine
//	> rules e behind=1
//
// An outcome is of the request's latest try unless try=N says otherwise. [+1s] lets time pass first.
func TestScripts(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	eventscript.Run(t, "testdata/*.script", func() func(*eventscript.Event) (string, error) {
		return (&player{s: New(Config{}), start: start, now: start, tries: map[ID]int{}}).play
	})
}

// player replays one script.
type player struct {
	s     *Scheduler
	start time.Time
	now   time.Time
	tries map[ID]int
}

func rulesOf(a *eventscript.Event) runspec.Dispatch {
	return runspec.Dispatch{
		Policy: runspec.DispatchPolicy(a.Text("policy")), MaxInFlightPerEngine: a.Int("per_engine"),
		AffinitySlack: a.Int("slack"), GroupPerEngine: a.Int("group"), AdapterSlots: a.Int("slots"),
		Order: runspec.DispatchOrder(a.Text("order")), Ageing: a.Float("ageing"),
		Queue: runspec.DispatchQueue(a.Text("queue")), Behind: a.Int("behind") > 0,
	}
}

// each is the requests that a word names: 7, or 3..5.
func each(word string) []ID {
	from, to, isRange := strings.Cut(word, "..")
	first, _ := strconv.ParseUint(from, 10, 64)
	last := first
	if isRange {
		last, _ = strconv.ParseUint(to, 10, 64)
	}
	var ids []ID
	for id := ID(first); id <= ID(last); id++ {
		ids = append(ids, id)
	}
	return ids
}

func (p *player) play(a *eventscript.Event) (string, error) {
	if passed, is := strings.CutPrefix(a.Word(0), "+"); is {
		d, err := time.ParseDuration(passed)
		if err != nil {
			return "", err
		}
		p.now = p.now.Add(d)
		a.Words = a.Words[1:]
	}
	switch a.Word(0) {
	case "config":
		p.s = New(Config{
			MaxQueued: a.Int("max_queued"), MaxTries: a.Int("max_tries"), SuspectAfter: a.Int("suspect_after"),
			AffinitySlack: a.Int("affinity"), NoEngineTTL: a.Duration("no_engine"), Worker: a.Text("worker"),
		})
		return "", nil
	case "stats":
		return p.stats(), nil
	}
	events, err := p.events(a)
	var out strings.Builder
	for _, ev := range events {
		out.WriteString(p.show(p.s.Handle(p.now, ev)))
	}
	return out.String(), err
}

// events is what a line says: one event for each request that it names.
func (p *player) events(a *eventscript.Event) ([]Event, error) {
	name := a.Word(0)
	_, outcome := outcomes[name]
	if !outcome && name != "submit" {
		ev, err := p.event(name, 0, a)
		return []Event{ev}, err
	}
	var events []Event
	for _, word := range a.Words[1:] {
		for _, id := range each(word) {
			ev, err := p.event(name, id, a)
			if err != nil {
				return nil, err
			}
			events = append(events, ev)
		}
	}
	return events, nil
}

var outcomes = map[string]Outcome{
	"served": Served, "refused": Refused, "unfit": Unfit, "overloaded": Overloaded, "missing": Missing, "aborted": Aborted,
	"failed": Failed, "timedout": TimedOut, "broken": Broken,
}

func (p *player) event(name string, id ID, a *eventscript.Event) (Event, error) {
	engine := rollout.EngineID(a.Word(1))
	if o, ok := outcomes[name]; ok {
		try := a.Int("try")
		if try == 0 {
			try = p.tries[id]
		}
		return TryEnded{id, try, o, a.Int("prompt"), a.Int("output"), a.Duration("retry"), rollout.Code(a.Text("code"))}, nil
	}
	switch name {
	case "submit":
		q := Request{
			ID: id, Model: cmp.Or(a.Text("model"), "m"), PromptTokens: a.Int("prompt"), OutputTokens: a.Int("output"),
			Home: rollout.EngineID(a.Text("home")),
			Episode: rollout.EpisodeRef{
				GroupRef: rollout.GroupRef{Run: rollout.RunName(cmp.Or(a.Text("run"), "r")), Seq: rollout.GroupSeq(a.Int("group"))},
				Sample:   a.Int("sample"),
			},
		}
		if d := a.Duration("deadline"); d != 0 {
			q.Deadline = p.now.Add(d)
		}
		return Submit{q}, nil
	case "engine":
		up := EngineUp{ID: engine, Limit: a.Int("limit"), Models: a.List("models"), Adapters: a.List("adapters"),
			Slots: a.Int("slots"), Elsewhere: a.Int("elsewhere")}
		if len(up.Models) == 0 {
			up.Models = []string{"m"}
		}
		return up, nil
	case "sample":
		return EngineSampled{engine, Load{At: p.now, Running: a.Float("running"), Waiting: a.Float("waiting"),
			KVUsage: a.Float("kv"), Preemptions: a.Float("preempted"), LifeAt: p.life(a)}}, nil
	case "rules":
		return RunRules{rollout.RunName(a.Word(1)), rulesOf(a)}, nil
	case "cancel":
		return Cancel{each(a.Word(1))[0]}, nil
	case "drain":
		return EngineDrain{engine}, nil
	case "down":
		return EngineDown{engine}, nil
	case "probed":
		return EngineProbed{engine, a.Word(2) == "ok"}, nil
	case "over":
		return RunOver{rollout.RunName(a.Word(1))}, nil
	case "tick":
		return Tick{}, nil
	}
	return nil, fmt.Errorf("unknown event %q", name)
}

// life is the sign of life that a sample speaks of.
func (p *player) life(a *eventscript.Event) time.Time {
	if a.Text("life") == "" {
		return time.Time{}
	}
	return p.now
}

func (p *player) show(commands []Command) string {
	var b strings.Builder
	for _, c := range commands {
		switch c := c.(type) {
		case Send:
			p.tries[c.ID] = c.Try
			fmt.Fprintf(&b, "send %d to %s", c.ID, c.Engine)
			if c.Try > 1 {
				fmt.Fprintf(&b, ", try %d", c.Try)
			}
		case Abandon:
			fmt.Fprintf(&b, "abandon %d on %s, try %d", c.ID, c.Engine, c.Try)
		case Reject:
			fmt.Fprintf(&b, "reject %d: %s", c.ID, c.Reason)
		case Probe:
			fmt.Fprintf(&b, "probe %s", c.Engine)
		case Opened:
			fmt.Fprintf(&b, "%s opens for %s: %s", c.Engine, cmp.Or(c.Run, "all"), c.Reason)
		case Closed:
			fmt.Fprintf(&b, "%s closes for %s", c.Engine, cmp.Or(c.Run, "all"))
		case Wake:
			fmt.Fprintf(&b, "wake at %v", c.At.Sub(p.start))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (p *player) stats() string {
	var b strings.Builder
	st := p.s.Stats()
	fmt.Fprintf(&b, "submitted %d = completed %d + rejected %d + queued %d + in flight %d; redispatched %d\n",
		st.Submitted, st.Completed, total(st.Rejected), st.Queued, st.InFlight, st.Redispatched)
	for _, e := range st.Engines {
		fmt.Fprintf(&b, "engine %s: %s, in flight %d of %d, limit %d, load %d\n", e.ID, e.Breaker, e.InFlight,
			e.Window, e.Limit, e.Load)
	}
	for _, r := range st.Runs {
		fmt.Fprintf(&b, "run %s: queued %d, in flight %d, service %d\n", r.Run, r.Queued, r.InFlight, r.Service)
	}
	return b.String()
}

func total(byReason map[rollout.Code]int64) (n int64) {
	for _, v := range byReason {
		n += v
	}
	return n
}
