package dispatch

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

var update = flag.Bool("update", false, "rewrite the scripts in testdata with what the scheduler does now")

// TestScripts replays testdata/*.script. Lines that begin with ">" are events; the lines below each are the
// commands they brought. Read the difference after -update: it is the specification.
//
//	> config max_queued=2 max_tries=2 suspect_after=3 affinity=8 no_engine=60s
//	> [+1s] engine a limit=2 models=m adapters=m-v1,m-v2 slots=1
//	> [+1s] sample a running=8 waiting=4 kv=0.5 preempted=1 life=now
//	> [+1s] submit 1..3 run=r group=0 sample=0 model=m prompt=100 output=20 class=1 deadline=5s
//	> [+1s] served 1 3 | refused 1 | unfit 1 | overloaded 1 retry=2s | missing 1 | aborted 1 | failed 1 code=x | timedout 1 | broken 1 | split 1
//	> [+1s] cancel 1 | drain a | down a | probed a ok | probed a dead | over r | tick | stats
//	> [+1s] rules r policy=round_robin per_engine=1 slack=2 group=3 slots=1 order=arrival ageing=5 queue=per_engine
//	        batch=8 window=1s calls=1 memory=1000 latency=50ms bins=2 ends=64 by=total select=round_robin
//
// An outcome is of the request's latest try unless try=N says otherwise. [+1s] lets time pass first.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if got == string(want) {
				return
			}
			if !*update {
				t.Fatalf("%s: run with -update and read the difference; got\n%s", file, got)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// player replays one script.
type player struct {
	s     *Scheduler
	start time.Time
	now   time.Time
	tries map[ID]int
}

// replay returns the script with the commands that its events bring now.
func replay(t *testing.T, script string) string {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &player{s: New(Config{}), start: start, now: start, tries: map[ID]int{}}
	var out strings.Builder
	for line := range strings.Lines(script) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
			out.WriteString(line)
		case strings.HasPrefix(trimmed, ">"):
			out.WriteString(line)
			answer, err := p.play(strings.Fields(trimmed[1:]))
			if err != nil {
				t.Fatalf("%s: %v", trimmed, err)
			}
			out.WriteString(answer)
		}
	}
	return out.String()
}

// args is the rest of an event's line: words, and key=value pairs.
type args struct {
	words []string
	pairs map[string]string
}

func parseArgs(fields []string) args {
	a := args{pairs: map[string]string{}}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.pairs[k] = v
			continue
		}
		a.words = append(a.words, f)
	}
	return a
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a args) num(key string) int {
	n, _ := strconv.Atoi(a.pairs[key])
	return n
}

func (a args) dur(key string) time.Duration {
	d, _ := time.ParseDuration(a.pairs[key])
	return d
}

func (a args) real(key string) float64 {
	x, _ := strconv.ParseFloat(a.pairs[key], 64)
	return x
}

func (a args) rules() rollout.Dispatch {
	rules := rollout.Dispatch{
		Policy: rollout.DispatchPolicy(a.pairs["policy"]), MaxInFlightPerEngine: a.num("per_engine"),
		AffinitySlack: a.num("slack"), GroupPerEngine: a.num("group"), AdapterSlots: a.num("slots"),
		Order: rollout.DispatchOrder(a.pairs["order"]), Ageing: a.real("ageing"),
		Queue: rollout.DispatchQueue(a.pairs["queue"]),
		Batching: rollout.Batching{
			MaxBatchSize: a.num("batch"), FlushWindow: rollout.Duration(a.dur("window")), BatchesPerEngine: a.num("calls"),
			MemoryTokens: a.num("memory"), TokenLatency: rollout.Duration(a.dur("latency")),
			Bins: a.num("bins"), BinBy: rollout.BinLength(a.pairs["by"]), BinSelect: rollout.BinSelect(a.pairs["select"]),
		},
	}
	for _, end := range strings.FieldsFunc(a.pairs["ends"], func(c rune) bool { return c == ',' }) {
		n, _ := strconv.Atoi(end)
		rules.Batching.Boundaries = append(rules.Batching.Boundaries, n)
	}
	return rules
}

func (a args) or(key, def string) string {
	if v, ok := a.pairs[key]; ok {
		return v
	}
	return def
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

func (p *player) play(fields []string) (string, error) {
	if len(fields) > 0 && strings.HasPrefix(fields[0], "+") {
		d, err := time.ParseDuration(fields[0][1:])
		if err != nil {
			return "", err
		}
		p.now = p.now.Add(d)
		fields = fields[1:]
	}
	if len(fields) == 0 {
		return "", fmt.Errorf("no event")
	}
	a := parseArgs(fields[1:])
	switch fields[0] {
	case "config":
		cfg := Config{
			MaxQueued: a.num("max_queued"), MaxTries: a.num("max_tries"), SuspectAfter: a.num("suspect_after"),
			AffinitySlack: a.num("affinity"), NoEngineTTL: a.dur("no_engine"),
		}
		p.s = New(cfg)
		return "", cfg.Validate()
	case "stats":
		return p.stats(), nil
	}
	events, err := p.events(fields[0], a)
	var out strings.Builder
	for _, ev := range events {
		out.WriteString(p.show(p.s.Handle(p.now, ev)))
	}
	return out.String(), err
}

// events is what a line says: one event for each request that it names.
func (p *player) events(name string, a args) ([]Event, error) {
	_, outcome := outcomes[name]
	if !outcome && name != "submit" {
		ev, err := p.event(name, 0, a)
		return []Event{ev}, err
	}
	var events []Event
	for _, word := range a.words {
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
	"failed": Failed, "timedout": TimedOut, "broken": Broken, "split": Split,
}

func (p *player) event(name string, id ID, a args) (Event, error) {
	engine := rollout.EngineID(a.word(0))
	if o, ok := outcomes[name]; ok {
		try := a.num("try")
		if try == 0 {
			try = p.tries[id]
		}
		return TryEnded{id, try, o, a.num("prompt"), a.num("output"), a.dur("retry"), a.pairs["code"]}, nil
	}
	switch name {
	case "submit":
		q := Request{
			ID: id, Model: a.or("model", "m"), PromptTokens: a.num("prompt"), OutputTokens: a.num("output"),
			Class: uint64(a.num("class")),
			Episode: rollout.EpisodeRef{
				GroupRef: rollout.GroupRef{Run: rollout.RunName(a.or("run", "r")), Seq: rollout.GroupSeq(a.num("group"))},
				Sample:   a.num("sample"),
			},
		}
		if d := a.dur("deadline"); d != 0 {
			q.Deadline = p.now.Add(d)
		}
		return Submit{q}, nil
	case "engine":
		up := EngineUp{ID: engine, Limit: a.num("limit"), Models: strings.Split(a.or("models", "m"), ","),
			Slots: a.num("slots")}
		if list := a.pairs["adapters"]; list != "" {
			up.Adapters = strings.Split(list, ",")
		}
		return up, nil
	case "sample":
		return EngineSampled{engine, Load{At: p.now, Running: a.real("running"), Waiting: a.real("waiting"),
			KVUsage: a.real("kv"), Preemptions: a.real("preempted"), LifeAt: p.life(a)}}, nil
	case "rules":
		return RunRules{rollout.RunName(a.word(0)), a.rules()}, nil
	case "cancel":
		return Cancel{each(a.word(0))[0]}, nil
	case "drain":
		return EngineDrain{engine}, nil
	case "down":
		return EngineDown{engine}, nil
	case "probed":
		return EngineProbed{engine, a.word(1) == "ok"}, nil
	case "over":
		return RunOver{rollout.RunName(a.word(0))}, nil
	case "tick":
		return Tick{}, nil
	}
	return nil, fmt.Errorf("unknown event %q", name)
}

// life is the sign of life that a sample speaks of.
func (p *player) life(a args) time.Time {
	if a.pairs["life"] == "" {
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
			if c.Batch > 0 {
				fmt.Fprintf(&b, ", in batch %d", c.Batch)
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
		fmt.Fprintf(&b, "engine %s: %s, in flight %d of %d, limit %d, load %d\n", e.ID, e.Condition, e.InFlight,
			e.Window, e.Limit, e.Load)
	}
	for _, r := range st.Runs {
		fmt.Fprintf(&b, "run %s: queued %d, in flight %d, service %d\n", r.Run, r.Queued, r.InFlight, r.Service)
		for i, bin := range r.Bins {
			fmt.Fprintf(&b, "  bin %d, %d to %d: queued %d, next batch %d; %d batches of %d; variance %.1f, range %.1f, "+
				"max/mean %.3f, padding %.3f\n",
				i, bin.From, bin.To, bin.Queued, bin.Target, bin.Batches, bin.Requests, bin.Variance, bin.Range,
				bin.MaxOverMean, bin.Padding)
		}
	}
	return b.String()
}

func total(byReason map[Reason]int64) (n int64) {
	for _, v := range byReason {
		n += v
	}
	return n
}
