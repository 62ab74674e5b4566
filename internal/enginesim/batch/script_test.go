package batch

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestScripts runs the scripts in testdata. A script is commands, each followed by the output it
// must give. Steps cost 10 ms, 1 ms more per prompt token, and nothing else, so that times can be
// worked out by hand.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(raw))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("the script gives\n%s", got)
			}
		})
	}
}

// runScript returns the script with the output that its commands gave.
func runScript(t *testing.T, script string) string {
	t.Helper()
	cost := Cost{Step: 10 * time.Millisecond, Token: time.Millisecond, LoRA: 1, AdapterRead: 20 * time.Millisecond,
		AdapterCopy: 5 * time.Millisecond}
	l := Limits{Sequences: 4, Tokens: 100, KV: 1000, Block: 4, Adapters: 2, HostAdapter: 3}
	s := New(cost, l)
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(script, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // old output
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := command(s, &l, line, &out); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if strings.HasPrefix(line, "limits") {
			s = New(cost, l)
		}
	}
	return out.String()
}

// command is one of
//
//	limits sequences=N tokens=N kv=N adapters=N        begin anew
//	AT submit ID prompt=N output=N [adapter=A] [priority=N] [blocks=N] [streams]
//	AT abort ID | AT load ID A | AT pause | AT resume
//	AT                                                 advance
//
// where AT is in milliseconds.
func command(s *Scheduler, l *Limits, line string, out *strings.Builder) error {
	words := strings.Fields(line)
	if words[0] == "limits" {
		return scan(words[1:], map[string]any{"sequences": &l.Sequences, "tokens": &l.Tokens, "kv": &l.KV,
			"adapters": &l.Adapters})
	}
	var ms, id int64
	if _, err := fmt.Sscan(words[0], &ms); err != nil {
		return err
	}
	now := time.Duration(ms) * time.Millisecond
	report := func() {
		events, _ := s.Advance(now)
		for _, e := range events {
			fmt.Fprintf(out, "  %v %s %d", e.At, eventNames[e.Kind], e.ID)
			if e.Cached > 0 {
				fmt.Fprintf(out, " cached=%d", e.Cached)
			}
			fmt.Fprintln(out)
		}
	}
	report() // what happens before the command
	if len(words) > 2 {
		if _, err := fmt.Sscan(words[2], &id); err != nil {
			return err
		}
	}
	if len(words) > 1 {
		if err := act(s, now, id, words[1:], out); err != nil {
			return err
		}
	}
	report()
	h := s.Held()
	fmt.Fprintf(out, "  running %d, waiting %d, deferred %d", h.Running, h.Waiting, h.Deferred)
	if at, ok := s.Next(); ok {
		fmt.Fprintf(out, ", next at %v", at)
	}
	fmt.Fprintln(out)
	return nil
}

var eventNames = map[EventKind]string{Admitted: "admitted", FirstToken: "first token", Token: "token",
	Finished: "finished", Loaded: "loaded"}

func act(s *Scheduler, now time.Duration, id int64, words []string, out *strings.Builder) error {
	switch words[0] {
	case "submit":
		r := Request{ID: id}
		blocks := 0
		if err := scan(words[2:], map[string]any{
			"prompt": &r.Prompt, "output": &r.Output, "adapter": &r.Adapter, "priority": &r.Priority, "blocks": &blocks,
			"streams": &r.Streams,
		}); err != nil {
			return err
		}
		for i := range blocks { // equal numbers of blocks are equal prefixes
			r.Blocks = append(r.Blocks, uint64(i+1))
		}
		if err := s.Submit(now, r); err != nil {
			fmt.Fprintf(out, "  refused: %v\n", err)
		}
	case "abort":
		fmt.Fprintf(out, "  aborted: %t\n", s.Abort(now, id))
	case "load":
		s.Load(now, id, words[2])
	case "pause":
		s.SetPaused(now, true)
	case "resume":
		s.SetPaused(now, false)
	default:
		return fmt.Errorf("unknown command")
	}
	return nil
}

// scan reads name=value words; a name alone sets a flag.
func scan(words []string, into map[string]any) error {
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		to, known := into[name]
		if !known {
			return fmt.Errorf("unknown field %q", name)
		}
		if !ok {
			value = "true"
		}
		if _, err := fmt.Sscan(value, to); err != nil {
			return err
		}
	}
	return nil
}
