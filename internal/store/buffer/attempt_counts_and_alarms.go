package buffer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// maxTryError bounds the text that is kept of an error.
const maxAttemptError = 500

// lastAttempt is the kept part of the latest attempt that failed with a code.
type lastAttempt struct {
	Error   string    `json:"error"`
	At      time.Time `json:"at"`
	Game    string    `json:"game"`
	Attempt int       `json:"attempt"`
}

// AttemptFailed counts an attempt at a game that failed, keeps its error as the latest with its code, and tells of it.
func (s *Store) AttemptFailed(ctx context.Context, t runstatus.FailedAttempt) error {
	text := t.Error
	if len(text) > maxAttemptError {
		text = strings.ToValidUTF8(text[:maxAttemptError], "") + "..."
	}
	last, err := json.Marshal(lastAttempt{text, t.At.UTC(), t.Ref.String(), t.Attempt})
	if err != nil {
		return fmt.Errorf("count a failed try: %w", err)
	}
	fact, err := telemetry.Encode(FailedFact(t))
	if err != nil {
		return fmt.Errorf("count a failed try: %w", err)
	}
	return s.do(ctx, "count a failed try", tryFailedScript, t.Ref.Run, string(t.Code), flag(t.Final), stamp(t.At), last,
		fact)
}

// GameFinished counts a game that was played to its end, with its environment's counters.
func (s *Store) GameFinished(ctx context.Context, run rollout.RunName, now time.Time, counts map[string]int64) error {
	args := []any{1, stamp(now)}
	for name, n := range counts {
		args = append(args, name, n)
	}
	return s.do(ctx, "count a finished game", trySucceededScript, run, args...)
}

// GameAdvanced records that a game that had failed got further than before: its failure is not permanent.
func (s *Store) GameAdvanced(ctx context.Context, run rollout.RunName, now time.Time) error {
	return s.do(ctx, "note a try that got further", trySucceededScript, run, 0, stamp(now))
}

// AttemptCounts is how the attempts at a run's games have ended so far.
func (s *Store) AttemptCounts(ctx context.Context, run rollout.RunName) (runstatus.AttemptCounts, error) {
	r, err := s.eval(ctx, triesScript, run)
	if err != nil {
		return runstatus.AttemptCounts{}, fmt.Errorf("attempts: %w", err)
	}
	t := runstatus.AttemptCounts{Finished: r.int(1), ByCode: []runstatus.FailedAttempts{}}
	fields, failing, ends := r.fields(2), r.fields(3), []time.Time{{}}
	for name, value := range fields {
		what, rest, _ := strings.Cut(name, " ")
		n := words(value).int(0)
		switch what {
		case "n":
			of := runstatus.FailedAttempts{
				Code: rollout.Code(rest), Attempts: n, GivenUp: words(fields["g "+rest]).int(0),
				InRow: words(failing["r "+rest]).int(0),
			}
			var last lastAttempt
			if err := json.Unmarshal([]byte(fields["l "+rest]), &last); err != nil {
				return t, fmt.Errorf("attempts of %s: the last with code %s: %w", run, rest, err)
			}
			of.Last, of.LastAt, of.LastGame, of.LastTried = last.Error, last.At, last.Game, last.Attempt
			t.ByCode = append(t.ByCode, of)
			ends = append(ends, of.LastAt)
			t.Failed += n
		case "c":
			if t.Counts == nil {
				t.Counts = map[string]int64{}
			}
			t.Counts[rest] = n
		case "e":
			at, err := readStamp(value)
			if err != nil {
				return t, fmt.Errorf("attempts of %s: %w", run, err)
			}
			ends = append(ends, at)
		}
	}
	t.EndedAt = slices.MaxFunc(ends, time.Time.Compare)
	slices.SortFunc(t.ByCode, func(a, b runstatus.FailedAttempts) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Code, b.Code))
	})
	if t.FailingSince, err = readStamp(failing["since"]); err != nil {
		return t, fmt.Errorf("attempts of %s: %w", run, err)
	}
	return t, nil
}

// StandingAlarm is one that stands now, and how long it must last before it is raised.
type StandingAlarm struct {
	runstatus.Alarm
	Patience time.Duration
}

// StandAlarms takes the alarms that stand now, and returns those that this call raises and those that it clears. Each
// is returned to one caller only, and is written as a fact at the same moment.
func (s *Store) StandAlarms(ctx context.Context, run rollout.RunName, now time.Time,
	standing []StandingAlarm) (raised, ended []runstatus.AlarmCode, err error) {
	over, err := alarmOverFact(run, now)
	if err != nil {
		return nil, nil, err
	}
	args := []any{now.UnixMilli(), over}
	for _, a := range standing {
		fact, err := alarmFact(run, a.Alarm, now)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, string(a.Code), a.Patience.Milliseconds(), fact)
	}
	r, err := s.eval(ctx, alarmsScript, run, args...)
	if err != nil {
		return nil, nil, fmt.Errorf("alarms: %w", err)
	}
	codes := func(l reply) (found []runstatus.AlarmCode) {
		for i := range l {
			found = append(found, runstatus.AlarmCode(l.str(i)))
		}
		return found
	}
	return codes(r.list(1)), codes(r.list(2)), nil
}
