package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
)

// writeDispatchLog logs a few events.
func writeDispatchLog(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "dispatch.log")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	log, scheduler, now := dispatchlog.NewWriter(file, 0), dispatch.New(dispatch.Config{}), time.Unix(1_700_000_000, 0)
	log.Begin(now, dispatchlog.Header{})
	for i, ev := range []dispatch.Event{
		dispatch.EngineUp{ID: "a", Limit: 1, Models: []string{"m"}},
		dispatch.Submit{Request: dispatch.Request{ID: 1, Model: "m"}},
		dispatch.Submit{Request: dispatch.Request{ID: 2, Model: "m"}},
		dispatch.TryEnded{ID: 1, Try: 1, OutputTokens: 20},
	} {
		at := log.Time(now.Add(time.Duration(i) * time.Second))
		log.Write(at, ev, scheduler.Handle(at, ev))
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReplayDispatch(t *testing.T) {
	t.Parallel()
	log := writeDispatchLog(t)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, old, new string
		code           int
		says           []string
	}{
		{"identical", "", "", 0, []string{"4 events of 3 s, with 2 requests and 2 commands", "the decisions are identical"}},
		{"other decisions", `"id":2,"engine":"a"`, `"id":2,"engine":"b"`, 1, []string{"changed.log:5: first difference, 3 s",
			"live      Send {ID:2 Engine:b", "replayed  Send {ID:2 Engine:a", "decides otherwise"}},
		{"an end that is none", "{\"end\"", "{\"e", 1, []string{"changed.log: line 6:"}},
		{"killed", "{\"end\":\"closed\",\"events\":4}\n", "", 1, []string{"the decisions up to there are identical",
			"changed.log: line 6: the log ends without its last line"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "changed.log")
			if err := os.WriteFile(file, bytes.Replace(text, []byte(tt.old), []byte(tt.new), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, said strings.Builder
			code := run(context.Background(), []string{"replay-dispatch", file}, &out, &said)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, says := range tt.says {
				if !strings.Contains(out.String()+said.String(), says) {
					t.Errorf("%s%s; want it to say %q", out.String(), said.String(), says)
				}
			}
		})
	}
}
