package batch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/eventscript"
)

// TestScripts replays testdata/*.script. Steps cost 10 ms, 1 ms more per prompt token, and nothing else, so that times
// can be worked out by hand.
func TestScripts(t *testing.T) {
	cost := Cost{
		Step: 10 * time.Millisecond, Token: time.Millisecond, LoRA: 1,
		AdapterRead: 20 * time.Millisecond, AdapterCopy: 5 * time.Millisecond,
	}
	eventscript.Run(t, "testdata/*.script", func() func(*eventscript.Event) (string, error) {
		l := Limits{Sequences: 4, Tokens: 100, KV: 1000, Block: 4, Adapters: 2, HostAdapter: 3}
		s := New(cost, l)
		return func(e *eventscript.Event) (string, error) {
			if e.Word(0) == "limits" {
				for name, limit := range map[string]*int{
					"sequences": &l.Sequences, "tokens": &l.Tokens, "kv": &l.KV, "adapters": &l.Adapters,
				} {
					*limit = cmp.Or(e.Int(name), *limit)
				}
				s = New(cost, l)
				return "", nil
			}
			return command(s, e)
		}
	})
}

// command is one of
//
//	limits sequences=N tokens=N kv=N adapters=N        begin again
//	AT submit ID prompt=N output=N [adapter=A] [blocks=N]
//	AT abort ID | AT load ID A | AT pause | AT resume
//	AT                                                 advance
//
// where AT is in milliseconds.
func command(s *Scheduler, e *eventscript.Event) (string, error) {
	ms, err := strconv.Atoi(e.Word(0))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	now := time.Duration(ms) * time.Millisecond
	report(&out, s, now) // what happens before the command
	if err := act(&out, s, now, e); err != nil {
		return "", err
	}
	report(&out, s, now)
	h := s.Held()
	fmt.Fprintf(&out, "running %d, waiting %d, deferred %d", h.Running, h.Waiting, h.Deferred)
	if at, ok := s.Next(); ok {
		fmt.Fprintf(&out, ", next at %v", at)
	}
	fmt.Fprintln(&out)
	return out.String(), nil
}

var eventNames = map[EventKind]string{
	Admitted: "admitted", FirstToken: "first token", Finished: "finished", Loaded: "loaded",
}

func report(out *strings.Builder, s *Scheduler, now time.Duration) {
	events := s.Advance(now)
	for _, e := range events {
		fmt.Fprintf(out, "%v %s %d", e.At, eventNames[e.Kind], e.ID)
		if e.Cached > 0 {
			fmt.Fprintf(out, " cached=%d", e.Cached)
		}
		fmt.Fprintln(out)
	}
}

func act(out *strings.Builder, s *Scheduler, now time.Duration, e *eventscript.Event) error {
	id, err := strconv.ParseInt(cmp.Or(e.Word(2), "0"), 10, 64)
	if err != nil {
		return err
	}
	switch e.Word(1) {
	case "":
	case "submit":
		r := Request{
			ID: id, Prompt: e.Int("prompt"), Output: e.Int("output"), Adapter: e.Text("adapter"),
		}
		for i := range e.Int("blocks") { // equal numbers of blocks are equal prefixes
			r.Prefix = append(r.Prefix, Segment{uint64(i + 1), 1})
		}
		if err := s.Submit(now, r); err != nil {
			fmt.Fprintf(out, "refused: %v\n", err)
		}
	case "abort":
		fmt.Fprintf(out, "aborted: %t\n", s.Abort(now, id))
	case "load":
		s.Load(now, id, e.Word(3))
	case "pause":
		s.SetPaused(now, true)
	case "resume":
		s.SetPaused(now, false)
	default:
		return fmt.Errorf("unknown command")
	}
	return nil
}
