package logreplay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// events and commands are one of each kind; TestEveryKindIsKnown keeps the lists complete.
var events = []dispatch.Event{
	dispatch.Submit{}, dispatch.Cancel{}, dispatch.TryEnded{}, dispatch.EngineUp{}, dispatch.EngineSampled{},
	dispatch.EngineDrain{}, dispatch.EngineDown{}, dispatch.EngineProbed{}, dispatch.RunRules{}, dispatch.RunOver{},
	dispatch.Tick{},
}

var commands = []dispatch.Command{
	dispatch.Send{}, dispatch.Abandon{}, dispatch.Reject{}, dispatch.Probe{}, dispatch.Opened{}, dispatch.Closed{},
	dispatch.Wake{},
}

// kindsIn names the types of package dispatch that have a method.
func kindsIn(t *testing.T, method string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../requests_events_commands.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == method {
			names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestEveryKindIsKnown: each event and command of package dispatch has a name, and is read by it.
func TestEveryKindIsKnown(t *testing.T) {
	t.Parallel()
	var names []string
	for _, ev := range events {
		names = append(names, reflect.TypeOf(ev).Name())
		if eventReaders[dispatch.EventName(ev)] == nil {
			t.Errorf("nothing reads %s", dispatch.EventName(ev))
		}
	}
	slices.Sort(names)
	if want := kindsIn(t, "event"); !slices.Equal(names, want) || len(eventReaders) != len(want) {
		t.Errorf("the events here are %v, those of package dispatch %v", names, want)
	}
	names = nil
	for _, c := range commands {
		names = append(names, reflect.TypeOf(c).Name())
		if commandReaders[dispatch.CommandName(c)] == nil {
			t.Errorf("nothing reads %s", dispatch.CommandName(c))
		}
	}
	slices.Sort(names)
	if want := kindsIn(t, "command"); !slices.Equal(names, want) || len(commandReaders) != len(want) {
		t.Errorf("the commands here are %v, those of package dispatch %v", names, want)
	}
}

// fill gives every field a value: never the zero value if full is set.
func fill(v reflect.Value, random *rand.Rand, full bool) {
	if !full && random.IntN(4) == 0 {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(0, 1+random.Int64N(1<<62)).UTC()))
		return
	case dispatch.Outcome:
		v.SetUint(1 + random.Uint64N(uint64(dispatch.Broken)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), random, full)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+random.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), random, true)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("näme <%d>\n", random.IntN(1000)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 + random.Int64N(1<<62))
	case reflect.Uint64:
		v.SetUint(1 + random.Uint64N(1<<63))
	case reflect.Float64:
		v.SetFloat(random.NormFloat64() * 1e3)
	default:
		panic(fmt.Sprintf("no values of type %s", v.Type())) // A new field of a type nobody taught it.
	}
}

func filled[T any](one T, random *rand.Rand, full bool) T {
	v := reflect.New(reflect.TypeOf(one)).Elem()
	fill(v, random, full)
	return v.Interface().(T)
}

// roundTrip writes one event with all commands and reads the line back.
func roundTrip(t *testing.T, ev dispatch.Event, commanded []dispatch.Command) {
	t.Helper()
	text, err := dispatchlog.Encode(17, ev, commanded)
	if err != nil {
		t.Fatal(err)
	}
	var line rawLine
	if err := strictly(text, &line); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got, err := line.event()
	if err != nil || line.At != 17 || !reflect.DeepEqual(got, ev) {
		t.Errorf("%s is read as %+v (%v), and was %+v", text, got, err, ev)
	}
	read, err := line.commands()
	same := func(a, b dispatch.Command) bool { return reflect.DeepEqual(a, b) }
	if err != nil || !slices.EqualFunc(read, commanded, same) {
		t.Errorf("%s: the commands are read as %+v (%v), and were %+v", text, read, err, commanded)
	}
}

// TestNoFieldIsLost: a field that a line leaves out would make a replay that differs, some day.
func TestNoFieldIsLost(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var full []dispatch.Command
	for _, c := range commands {
		full = append(full, filled(c, random, true))
	}
	for _, ev := range events {
		roundTrip(t, filled(ev, random, true), full)
	}
}

func FuzzLinesAreReadBack(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		var some []dispatch.Command
		for range random.IntN(4) {
			some = append(some, filled(commands[random.IntN(len(commands))], random, false))
		}
		roundTrip(t, filled(events[random.IntN(len(events))], random, false), some)
	})
}

// driver is a live dispatcher of sorts: it makes up what happens, and obeys the scheduler.
type driver struct {
	random    *rand.Rand
	scheduler *dispatch.Scheduler
	log       *dispatchlog.Writer
	now, wake time.Time
	lastID    dispatch.ID
	inFlight  []dispatch.Send
}

type memory struct{ bytes.Buffer }

func (*memory) Close() error { return nil }

// record is the log of some made-up events.
func record(seed uint64, n int, most int64) []byte {
	var file memory
	d := &driver{random: rand.New(rand.NewPCG(seed, 0)), log: dispatchlog.NewWriter(&file, most),
		now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)}
	cfg := dispatch.Config{MaxQueued: 40, NoEngineTTL: 5 * time.Second}
	d.scheduler = dispatch.New(cfg)
	d.log.Begin(d.now, dispatchlog.Header{Worker: "test", Scheduler: cfg})
	for e := range 3 {
		d.handle(d.engineUp(e))
	}
	for range n {
		d.now = d.now.Add(time.Duration(d.random.IntN(200_000_000)))
		d.handle(d.event())
	}
	if err := d.log.Close(); err != nil {
		panic(err)
	}
	return file.Bytes()
}

func (d *driver) handle(ev dispatch.Event) {
	now, ev := d.log.Time(d.now), d.log.Event(ev)
	commanded := d.scheduler.Handle(now, ev)
	d.log.Write(now, ev, commanded)
	for _, c := range commanded {
		switch c := c.(type) {
		case dispatch.Send:
			d.inFlight = append(d.inFlight, c)
		case dispatch.Abandon:
			d.inFlight = slices.DeleteFunc(d.inFlight, func(s dispatch.Send) bool { return s.ID == c.ID && s.Try == c.Try })
		case dispatch.Wake:
			d.wake = c.At
		case dispatch.Reject, dispatch.Probe, dispatch.Opened, dispatch.Closed:
		}
	}
}

func (d *driver) engineUp(e int) dispatch.Event {
	return dispatch.EngineUp{ID: rollout.EngineID(fmt.Sprint("e", e)), Limit: 4, Models: []string{"m"},
		Adapters: []string{"m-v1", "m-v2"}, Slots: 2}
}

func (d *driver) event() dispatch.Event {
	engine := rollout.EngineID(fmt.Sprint("e", d.random.IntN(3)))
	run := rollout.RunName(fmt.Sprint("r", d.random.IntN(2)))
	switch n := d.random.IntN(20); {
	case n < 8:
		d.lastID++
		q := dispatch.Request{ID: d.lastID, Model: []string{"m", "m-v1", "m-v2", "m-v3"}[d.random.IntN(4)],
			PromptTokens: d.random.IntN(900)}
		q.Episode.Run, q.Episode.Seq, q.Episode.Sample = run, rollout.GroupSeq(d.random.IntN(9)), d.random.IntN(4)
		if d.random.IntN(5) == 0 {
			q.Deadline = d.now.Add(time.Duration(d.random.IntN(3_000_000_000)))
		}
		return dispatch.Submit{Request: q}
	case n < 15 && len(d.inFlight) > 0:
		i := d.random.IntN(len(d.inFlight))
		sent := d.inFlight[i]
		d.inFlight = slices.Delete(d.inFlight, i, i+1)
		outcome := dispatch.Outcome(max(0, d.random.IntN(20)-9))
		return dispatch.TryEnded{ID: sent.ID, Try: sent.Try, Outcome: min(outcome, dispatch.Broken), PromptTokens: 400,
			OutputTokens: d.random.IntN(60), Code: rollout.CodeOther}
	case n == 15:
		return dispatch.EngineSampled{ID: engine, Load: dispatch.Load{At: d.now, Running: float64(d.random.IntN(5)),
			Waiting: d.random.Float64(), KVUsage: d.random.Float64(), LifeAt: d.now}}
	case n == 16:
		return dispatch.EngineProbed{ID: engine, OK: d.random.IntN(3) > 0}
	case n == 17 && d.random.IntN(3) == 0:
		return dispatch.EngineDown{ID: engine}
	case n == 17:
		return d.engineUp(d.random.IntN(3))
	case n == 18:
		return dispatch.RunRules{Run: run, Rules: runspec.Dispatch{
			Policy: runspec.LeastTokens, Order: runspec.ShortestFirst, Ageing: 5,
			GroupPerEngine: d.random.IntN(3),
		}}
	}
	if d.random.IntN(2) == 0 && d.lastID > 0 {
		return dispatch.Cancel{ID: 1 + dispatch.ID(d.random.Uint64N(uint64(d.lastID)))}
	}
	if d.wake.After(d.now) {
		d.now = d.wake
	}
	return dispatch.Tick{}
}

// TestReplayIsIdentical: whatever happens, the log brings the same commands.
func TestReplayIsIdentical(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r, err := Run(bytes.NewReader(record(seed, 1500, 0)))
		if err != nil || r.Difference != nil {
			t.Fatalf("seed %d: %v, %+v", seed, err, r.Difference)
		}
		if r.Events != 1503 || r.Requests < 300 || r.Commands < 1000 || r.Full || r.Span < time.Minute {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}

// TestDifferenceIsFound: a scheduler that decides otherwise is caught at its first other decision.
func TestDifferenceIsFound(t *testing.T) {
	t.Parallel()
	lines := bytes.Split(record(1, 800, 0), []byte("\n"))
	at := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte(`"engine":"e1","try":1`)) })
	lines[at] = bytes.Replace(lines[at], []byte(`"engine":"e1","try":1`), []byte(`"engine":"e2","try":1`), 1)
	r, err := Run(bytes.NewReader(bytes.Join(lines, []byte("\n"))))
	if err != nil || r.Difference == nil || r.Difference.Line != at+1 {
		t.Fatalf("%v, %+v; want a difference in line %d", err, r.Difference, at+1)
	}
	if reflect.DeepEqual(r.Difference.Recorded, r.Difference.Replayed) {
		t.Errorf("both commanded %v", r.Difference.Recorded)
	}
}

// TestBadLogs: what no dispatcher wrote is refused, with its line.
func TestBadLogs(t *testing.T) {
	t.Parallel()
	log := string(record(1, 100, 0))
	lines := strings.SplitAfter(log, "\n") // the last is empty
	without := func(line int) string { return strings.Join(slices.Delete(slices.Clone(lines), line-1, line), "") }
	submit := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"submit"`) })
	twice := slices.Insert(slices.Clone(lines), submit+1, lines[submit])
	for _, tt := range []struct{ name, log, says string }{
		{"empty", "", "line 1: the log is empty"},
		{"no log", "hello\n", "line 1: this is no dispatch log"},
		{"a list", "[]\n", "line 1: this is no dispatch log"},
		{"another version", strings.Replace(log, `"version":1`, `"version":2`, 1), "of version 2, and this program reads version 1"},
		{"an impossible scheduler", strings.Replace(log, `"MaxQueued":40`, `"MaxQueued":-1`, 1), "line 1: dispatch: max queued"},
		{"an unknown setting", strings.Replace(log, `"MaxQueued"`, `"MostQueued"`, 1), "line 1: json: unknown field"},
		{"no first line", without(1), "line 1: this is no dispatch log"},
		{"no last line", strings.Join(lines[:len(lines)-2], ""), "line 105: the log ends without its last line"},
		{"half a line", log[:len(log)/2], "cut off after"},
		{"a line in the middle gone", without(len(lines) - 2), "has 103 events, and has 102"},
		{"more behind the end", log + lines[3], "stands behind the log's last line"},
		{"an unknown event", strings.Replace(log, `"event":"submit"`, `"event":"surmise"`, 1), `there is no event "surmise"`},
		{"an unknown command", strings.Replace(log, `"command":"send"`, `"command":"sent"`, 1), `there is no command "sent"`},
		{"an unknown field", strings.Replace(log, `"limit":4`, `"limits":4`, 1), "line 2: engine_up: json: unknown field"},
		{"a wrong type", strings.Replace(log, `"limit":4`, `"limit":"four"`, 1), "line 2: engine_up: json: cannot unmarshal"},
		{"an unknown outcome", strings.Replace(log, `"outcome":"served"`, `"outcome":"eaten"`, 1), `there is no outcome "eaten"`},
		{"not JSON", strings.Replace(log, `{"at":`, `{"at"`, 1), "invalid character"},
		{"time that goes back", strings.Replace(log, lines[3], strings.Replace(lines[3], `{`, `{"at":-5,`, 1), 1),
			"line 4: time goes back"},
		{"a request twice", strings.Join(twice, ""), "this cannot have happened: dispatch: request"},
		{"an unknown end", strings.Replace(log, `"end":"closed"`, `"end":"soon"`, 1), `there is no end "soon"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Run(strings.NewReader(tt.log))
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%v (%+v); want a line that says %q", err, r.Difference, tt.says)
			}
		})
	}
	if _, err := Run(strings.NewReader(log[:len(log)-30])); !errors.Is(err, ErrNoEnd) {
		t.Errorf("a log that is cut off: %v", err)
	}
}

// TestLogIsBounded: a full log says so, and what it holds replays.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	log := record(3, 2000, 50_000)
	r, err := Run(bytes.NewReader(log))
	if err != nil || r.Difference != nil || !r.Full || len(log) > 50_000 || r.Events < 50 {
		t.Errorf("%d bytes: %v, %+v", len(log), err, r)
	}
}

type brokenDisk struct{ left int }

func (b *brokenDisk) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}
func (b *brokenDisk) Close() error { return nil }

// TestFailedWritesAreTold: the dispatcher goes on, and whoever closes the log hears of it.
func TestFailedWritesAreTold(t *testing.T) {
	t.Parallel()
	w := dispatchlog.NewWriter(&brokenDisk{left: 100_000}, 0)
	now := time.Unix(1, 0)
	w.Begin(now, dispatchlog.Header{})
	for range 10_000 {
		w.Write(w.Time(now), dispatch.Cancel{ID: 1}, nil)
	}
	if err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
	w = dispatchlog.NewWriter(&memory{}, 0)
	w.Begin(now, dispatchlog.Header{})
	w.Write(w.Time(now), dispatch.EngineSampled{Load: dispatch.Load{KVUsage: nan()}}, nil)
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "dispatch log: engine_sampled: json") {
		t.Errorf("a value that JSON does not have: %v", err)
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// TestTimesAreOnOneScale: steady readings do not reach the scheduler, and no time stays none.
func TestTimesAreOnOneScale(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	w := dispatchlog.NewWriter(&memory{}, 0)
	w.Begin(begun, dispatchlog.Header{})
	later := begun.Add(3 * time.Second)
	got := w.Time(later)
	if !got.Equal(later) || got != got.Round(0) || got.Sub(w.Time(begun)) != 3*time.Second ||
		!w.Time(time.Time{}).IsZero() {
		t.Errorf("%v", got)
	}
	ev := w.Event(dispatch.Submit{Request: dispatch.Request{Deadline: later}}).(dispatch.Submit)
	if ev.Deadline != got {
		t.Errorf("the deadline is %v", ev.Deadline)
	}
	far := w.Time(time.Date(99_999, 1, 1, 0, 0, 0, 0, time.UTC))
	if _, err := json.Marshal(far); err != nil {
		t.Errorf("a deadline that never comes: %v", err)
	}
}

// BenchmarkReplay is how many events a second are replayed.
func BenchmarkReplay(b *testing.B) {
	log := record(1, 20_000, 0)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := Run(bytes.NewReader(log)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite is what a log adds to an event of the live dispatcher.
func BenchmarkWrite(b *testing.B) {
	w := dispatchlog.NewWriter(discarded{}, 1<<60)
	now := time.Now()
	w.Begin(now, dispatchlog.Header{})
	q := dispatch.Request{ID: 1, Model: "run-v12", PromptTokens: 440, OutputTokens: 24}
	sent := []dispatch.Command{dispatch.Send{ID: 1, Engine: "engine-1", Try: 1}}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		w.Write(w.Time(now), w.Event(dispatch.Submit{Request: q}), sent)
	}
}

type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) Close() error                { return nil }
