package runmachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestScripts plays testdata/scripts: what happens to a run, and below each line what the run does about it. It is the
// specification; run with -rewrite and read the difference. Groups are named by number, as 0-5 8.
//
//	start [steps=5 buffer.depth=2 ...] [policy=a] [group_bytes=100] [fail=TASK] [hold=TASK] [told=1]
//	                       told: the run was told of a serial of an account that it has not confirmed yet
//	begin 0-2              requests of these groups are dispatched
//	ready 0-2 [zero_variance] [score=0.5] [silent]   they are committed; silent: the run is not told
//	dropped 0 code=deadline     they failed
//	closed 0 [foreign] | gone 0      their workflows ended without a word | cannot be found
//	claim [silent] | complete [silent]   the trainer's next step
//	change buffer.depth=1 | pause | resume | stop REASON | cancel
//	probe 21 steps=2 [for=1h] | probe end
//	publish 1 /path [digest=d]   with the answers that fault=CODE (of loads) and unfit=CODE (of the inspection) give
//	save | back            Redis comes back as it was when it was saved
//	rewind                 the trainer goes back behind the batches that are lost
//	late era=1 serial=9 [step=1 3-5] [completed=2] [generation=4]   the account of an era that is over has told more
//	pass 15s | forget [batches] | cut | lost [late] | hold TASK | answer | fail TASK | slow 600ms
//	account                what the run counts
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "start" {
				w = newWorld(specOf(t, d))
				w.fails, w.holds = textOf(d, "fail", ""), textOf(d, "hold", "")
				w.bytes, _ = strconv.ParseInt(textOf(d, "group_bytes", "0"), 10, 64)
				if d.HasArg("told") {
					w.mark, w.confirmed = runstatus.Mark{}, ""
					_ = w.m.Handle(w.now, BufferChanged{Mark: told(t, d)})
				}
				w.event(Began{New: true})
			} else {
				play(t, w, d)
			}
			out := strings.Join(w.log, "\n")
			w.log = nil
			return out
		})
	})
}

func play(t *testing.T, w *world, d *datadriven.TestData) {
	switch d.Cmd {
	case "begin":
		for _, seq := range groupsOf(t, d) {
			w.groups[seq] = inFlight
		}
	case "ready":
		for _, seq := range groupsOf(t, d) {
			w.commit(seq)
			if !d.HasArg("silent") {
				var score *float64
				if text := textOf(d, "score", ""); text != "" {
					score = new(float64)
					*score, _ = strconv.ParseFloat(text, 64)
				}
				w.event(GroupEnded{Seq: seq, ZeroVariance: d.HasArg("zero_variance"), Score: score})
			}
		}
	case "dropped":
		for _, seq := range groupsOf(t, d) {
			w.groups[seq] = dropped
			if d.HasArg("silent") {
				w.m.Handle(w.now, GroupEnded{Seq: seq, Code: rollout.Code(textOf(d, "code", "deadline"))})
				continue
			}
			code := rollout.Code(textOf(d, "code", "deadline"))
			w.event(GroupEnded{Seq: seq, Code: code, ZeroVariance: d.HasArg("zero_variance")})
		}
	case "closed":
		for _, seq := range groupsOf(t, d) {
			w.event(GroupClosed{Seq: seq, Foreign: d.HasArg("foreign")})
		}
	case "gone":
		for _, seq := range groupsOf(t, d) {
			w.gone[seq] = true
		}
	case "claim", "complete":
		if d.Cmd == "complete" {
			w.completed++
			w.mark.Serial++
		} else if !w.claim() {
			t.Fatalf("%s: no batch is ready", d.Pos)
		}
		if !d.HasArg("silent") {
			w.event(BufferChanged{})
		}
	case "change":
		w.event(Changed{ID: d.Pos, Spec: changed(t, d, w.m.Spec), Text: "set " + d.CmdArgs[0].String()})
	case "pause", "resume":
		paused := d.Cmd == "pause"
		w.event(Changed{ID: d.Pos, Spec: w.m.Spec, Paused: &paused, Text: d.Cmd})
	case "probe":
		p := runstatus.LoadProbeRequest{End: d.CmdArgs[0].Key == "end"}
		p.Limit, _ = strconv.Atoi(d.CmdArgs[0].Key)
		p.Steps, _ = strconv.Atoi(textOf(d, "steps", "0"))
		p.For, _ = time.ParseDuration(textOf(d, "for", "1h"))
		if err := w.m.ValidateLoadProbe(p); err != nil {
			w.log = append(w.log, "refused: "+err.Error())
			return
		}
		w.event(LoadProbeAsked{ID: d.Pos, Request: p})
	case "stop":
		w.event(StopAsked{Reason: d.CmdArgs[0].Key})
	case "cancel":
		if w.wait == nil {
			t.Fatalf("%s: the run does not wait", d.Pos)
		}
		cmd := *w.wait
		w.wait = nil
		w.event(Interrupted{cmd.ID})
	case "publish":
		v, _ := strconv.Atoi(d.CmdArgs[0].Key)
		w.digest, w.loading, w.inspection = textOf(d, "digest", ""), faultOf(d, "fault"), faultOf(d, "unfit")
		w.event(PublishAsked{ID: d.Pos, Version: rollout.PolicyVersion(v), Path: d.CmdArgs[1].Key})
	case "pass":
		elapsed, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(elapsed)
	case "forget":
		if w.lost = !d.HasArg("batches"); !w.lost {
			w.claimed = w.claimed[:w.completed]
		} else {
			clear(w.groups)
			w.claimed, w.completed, w.mark, w.version, w.confirmed = nil, 0, runstatus.Mark{}, 0, ""
		}
		w.event(BufferChanged{})
	case "save":
		w.save()
	case "back":
		w.goBack()
		w.event(BufferChanged{})
	case "rewind":
		w.behind = true
		w.mark.Serial++
		w.event(BufferChanged{})
	case "late":
		w.event(BufferChanged{Mark: lateMark(t, d)})
	case "cut":
		if err := w.cut(); err != nil {
			t.Fatal(err)
		}
	case "backup":
		if err := w.backUp(); err != nil {
			t.Fatal(err)
		}
	case "restore":
		if err := w.restore(); err != nil {
			t.Fatal(err)
		}
	case "lost":
		var unheard []rollout.GroupSeq
		if d.HasArg("late") {
			unheard = seqsOf(w.m.Playing)
			clear(w.groups)
		}
		w.resume(Resume(Lost{Spec: w.spec, Status: w.mirrored, Account: w.account(0), Unheard: unheard}, w.now), true)
	case "slow":
		w.takes, _ = time.ParseDuration(d.CmdArgs[0].Key)
	case "hold":
		w.holds = d.CmdArgs[0].Key
	case "answer":
		w.release(false)
	case "fail":
		w.fails = ""
		if len(d.CmdArgs) > 0 {
			w.fails = d.CmdArgs[0].Key
		}
	case "account":
		w.log = append(w.log, account(w.m))
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
}

// told is the mark of an account that no run has confirmed.
func told(t *testing.T, d *datadriven.TestData) runstatus.Mark {
	serial, err := strconv.ParseInt(textOf(d, "told", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return runstatus.Mark{Serial: serial, Generation: 1}
}

// lateMark is how far the account of an era is said to have come.
func lateMark(t *testing.T, d *datadriven.TestData) runstatus.Mark {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(textOf(d, name, "0"), 10, 64)
		return n
	}
	mark := runstatus.Mark{Era: number("era"), Serial: number("serial"), Completed: rollout.Step(number("completed")),
		Generation: rollout.TrainerGeneration(number("generation"))}
	if d.HasArg("step") {
		seqs := groupsOf(t, d)
		mark.Grants = []runstatus.Grant{{Step: rollout.Step(number("step")), Seqs: seqs, Digest: fmt.Sprint(seqs)}}
		mark.Granted = mark.Grants[0].Step + 1
	}
	return mark
}

// account is what the run counts, as text.
func account(m *Machine) string {
	var playing []string
	for _, g := range m.Playing {
		text := fmt.Sprintf("%d@%d", g.Seq, g.Version)
		if g.Opponent != "" {
			text += ":" + g.Opponent
		}
		playing = append(playing, text)
	}
	text := fmt.Sprintf("%s: playing %s; ready %s; %d claimed, %d completed; version %d, needed from %d",
		m.State, strings.Join(playing, " "), spans(m.Ready), m.Claimed, m.Completed, m.Version, m.oldestNeeded())
	if m.Spec.League.Slots > 0 {
		text += fmt.Sprintf("; league %v", m.League.Members)
		for _, player := range slices.Sorted(maps.Keys(m.League.Against)) {
			against := m.League.Against[player]
			text += fmt.Sprintf(", %g of %d groups won against %s", against.Score, against.Groups, player)
		}
	}
	if len(m.Failures) > 0 {
		text += fmt.Sprintf("; dropped %v", m.Failures)
	}
	return text
}

// specOf is the spec of every script, as a line changes it.
func specOf(t *testing.T, d *datadriven.TestData) runspec.Spec {
	spec := runspec.Spec{
		Name: "demo", Model: "base", Steps: 5, Group: runspec.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 4, OnStale: runspec.DropStale},
	}
	if name := textOf(d, "policy", ""); name != "" {
		spec.Policies = []runspec.FixedPolicy{{Name: name, Path: "/" + name}}
	}
	return changed(t, d, spec)
}

// changed sets the keys of a spec that a line names.
func changed(t *testing.T, d *datadriven.TestData, spec runspec.Spec) runspec.Spec {
	for _, arg := range d.CmdArgs {
		section, key, nested := strings.Cut(arg.Key, ".")
		if !nested && arg.Key != "steps" && arg.Key != "policy_refresh" {
			continue
		}
		value := arg.Vals[0]
		if _, err := strconv.Atoi(value); err != nil {
			value = strconv.Quote(value)
		}
		text := fmt.Sprintf("{%q:%s}", section, value)
		if nested {
			text = fmt.Sprintf("{%q:{%q:%s}}", section, key, value)
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&spec); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	return spec
}

func textOf(d *datadriven.TestData, key, otherwise string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return arg.Vals[0]
		}
	}
	return otherwise
}

func faultOf(d *datadriven.TestData, key string) *Fault {
	if code := textOf(d, key, ""); code != "" {
		return &Fault{Code: rollout.RefusalCode(code), Text: "no"}
	}
	return nil
}

// groupsOf is the groups that a line names.
func groupsOf(t *testing.T, d *datadriven.TestData) []rollout.GroupSeq {
	var seqs []rollout.GroupSeq
	for _, arg := range d.CmdArgs {
		from, to, _ := strings.Cut(arg.Key, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue // a word
		}
		last := first
		if to != "" {
			if last, err = strconv.Atoi(to); err != nil {
				t.Fatal(err)
			}
		}
		for seq := first; seq <= last; seq++ {
			seqs = append(seqs, rollout.GroupSeq(seq))
		}
	}
	return seqs
}
