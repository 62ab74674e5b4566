package supply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/eventscript"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

var origin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The scripts are a pool, look by look. What stays as it is from one look to the next need not be said again:
//
//	> look at=5s wanted=2 list=1:running,2:pending members=1:ready under=2 failed=start:3
//
// Engines are called by their numbers. What is behind a member's state: drain, recalled, leave, idle.
func TestPoolScripts(t *testing.T) {
	eventscript.Run(t, "testdata/*.txt", func() func(*eventscript.Event) (string, error) {
		return (&script{pool: New()}).play
	})
}

type script struct {
	pool *Pool
	seen Seen
}

func (s *script) play(e *eventscript.Event) (string, error) {
	if e.Word(0) != "look" {
		return "", fmt.Errorf("%q: want look", e.Word(0))
	}
	s.seen.At = origin.Add(e.Duration("at"))
	if text := e.Text("wanted"); text != "" {
		s.seen.Wanted = e.Int("wanted")
	}
	s.seen.ListFault = e.Text("fault")
	s.seen.UnderWay, s.seen.Results, s.seen.Removed = ids(e.Text("under")), nil, ids(e.Text("removed"))
	for _, one := range words(e.Text("done")) {
		s.seen.Results = append(s.seen.Results, Result{Do: Action(one[0]), ID: idOf(one[1])})
	}
	for _, one := range words(e.Text("failed")) {
		s.seen.Results = append(s.seen.Results, Result{Do: Action(one[0]), ID: idOf(one[1]), Fault: "no quota"})
	}
	if text := e.Text("list"); text != "" {
		s.seen.Listed = nil
		for _, one := range words(text) {
			s.seen.Listed = append(s.seen.Listed, instanceOf(one))
		}
	}
	if text := e.Text("members"); text != "" {
		s.seen.Members = nil
		for _, one := range words(text) {
			s.seen.Members = append(s.seen.Members, memberOf(one, s.seen.At))
		}
	}
	for i := range s.seen.Members {
		s.seen.Members[i].IdleAt = s.seen.At
	}
	return s.brought(), nil
}

// words are comma-separated, their parts separated by colons; "none" is no word.
func words(text string) (all [][]string) {
	for one := range strings.SplitSeq(text, ",") {
		if one != "" && one != "none" {
			all = append(all, strings.Split(one, ":"))
		}
	}
	return all
}

func ids(text string) (all []rollout.EngineID) {
	for _, one := range words(text) {
		all = append(all, idOf(one[0]))
	}
	return all
}

func idOf(number string) rollout.EngineID { return rollout.EngineID("scaled-" + number) }

func instanceOf(parts []string) provider.Instance {
	in := provider.Instance{ID: idOf(parts[0]), State: enginestate.EngineState(parts[1]), Since: origin}
	switch in.State {
	case enginestate.EngineRunning:
		in.URL = "http://host:800" + parts[0]
	case enginestate.EngineFailed, enginestate.EngineOrdered:
		in.Reason = "says its provider"
	}
	for _, part := range parts[2:] {
		if after, leaves := strings.CutPrefix(part, "leaves-"); leaves {
			d, _ := time.ParseDuration(after)
			in.LeavesAt = origin.Add(d)
		}
	}
	return in
}

func memberOf(parts []string, at time.Time) Member {
	m := Member{ID: idOf(parts[0]), URL: "http://host:800" + parts[0], State: enginestate.EngineState(parts[1]), Since: at}
	for _, part := range parts[2:] {
		m.Drain = m.Drain || part == "drain"
		m.Recalled = m.Recalled || part == "recalled"
		m.Leave = m.Leave || part == "leave"
		m.Idle = m.Idle || part == "idle"
	}
	return m
}

func (s *script) brought() string {
	var out strings.Builder
	commands := s.pool.Handle(s.seen)
	for _, c := range commands {
		fmt.Fprintf(&out, "  %s %s", c.Do, c.ID)
		if c.URL != "" {
			fmt.Fprintf(&out, " %s", c.URL)
		}
		if c.Recall {
			out.WriteString(" recall")
		}
		out.WriteString("\n")
	}
	for i := range s.pool.Engines {
		e := &s.pool.Engines[i]
		fmt.Fprintf(&out, "  | %s %s", e.ID, e.State)
		if e.Cause != "" {
			fmt.Fprintf(&out, " (%s)", e.Cause)
		}
		if e.Reason != "" {
			fmt.Fprintf(&out, ": %s", e.Reason)
		}
		out.WriteString("\n")
	}
	if s.pool.Trouble != "" {
		fmt.Fprintf(&out, "  | trouble since %v: %s\n", s.pool.TroubleSince.Sub(origin), s.pool.Trouble)
	}
	if wait := s.pool.RetryAt.Sub(s.seen.At); wait > 0 {
		fmt.Fprintf(&out, "  | nothing is started for %v\n", wait)
	}
	fmt.Fprintf(&out, "  | look again after %v\n", s.pool.NextLook(s.seen.At, s.seen.Wanted, 10*time.Second))
	return out.String()
}
