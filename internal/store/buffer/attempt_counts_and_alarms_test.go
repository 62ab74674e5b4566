package buffer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

// TestAttemptCounts: failed attempts are counted by code, with the latest of each; those in a row end with a game that
// is finished, or that got further.
func TestAttemptCounts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		at := start
		fail := func(code rollout.Code, final bool) {
			t.Helper()
			at = at.Add(time.Second)
			f.ok(f.AttemptFailed(f.ctx, runstatus.FailedAttempt{
				Ref: rollout.EpisodeRef{GroupRef: ref(4), Sample: 1}, Code: code, Error: string(code) + strings.Repeat("!", 900),
				Attempt: 2, Final: final, At: at,
			}))
		}
		see := func(want string) runstatus.AttemptCounts {
			t.Helper()
			attempts, err := f.AttemptCounts(f.ctx, run)
			f.ok(err)
			got := fmt.Sprintf("%d finished, %d failed", attempts.Finished, attempts.Failed)
			for _, c := range attempts.ByCode {
				got += fmt.Sprintf("; %s %d/%d/%d", c.Code, c.Attempts, c.GivenUp, c.InRow)
			}
			if got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			return attempts
		}
		see("0 finished, 0 failed")
		fail("timeout", false)
		fail("panic", true)
		fail("timeout", true)
		attempts := see("0 finished, 3 failed; timeout 2/1/2; panic 1/1/1")
		if last := attempts.ByCode[0]; !attempts.FailingSince.Equal(start.Add(time.Second)) || !last.LastAt.Equal(at) ||
			!attempts.EndedAt.Equal(at) || last.LastGame != "demo/4/1" || last.LastTried != 2 || len(last.Last) > 510 {
			t.Errorf("%+v", attempts)
		}
		f.ok(f.GameFinished(f.ctx, run, at.Add(time.Second), map[string]int64{"answers_invalid": 2, "answers_full": 5}))
		f.ok(f.GameFinished(f.ctx, run, at.Add(time.Second), map[string]int64{"answers_invalid": 1}))
		if attempts = see("2 finished, 3 failed; timeout 2/1/0; panic 1/1/0"); attempts.Counts["answers_invalid"] != 3 ||
			!attempts.FailingSince.IsZero() || !attempts.EndedAt.Equal(at.Add(time.Second)) {
			t.Errorf("%+v", attempts)
		}
		fail("panic", false)
		f.ok(f.GameAdvanced(f.ctx, run, at.Add(time.Second)))
		see("2 finished, 4 failed; panic 2/1/0; timeout 2/1/0")
		for i := range 100 {
			fail(rollout.Code(fmt.Sprintf("code-%d", i)), false)
		}
		if attempts, err := f.AttemptCounts(f.ctx, run); err != nil || len(attempts.ByCode) > 65 ||
			attempts.ByCode[0].Code != "other" {
			t.Errorf("%d codes are kept, %v", len(attempts.ByCode), err)
		}
		f.ok(f.Delete(f.ctx, run))
		f.refused(f.AttemptFailed(f.ctx, runstatus.FailedAttempt{Ref: rollout.EpisodeRef{GroupRef: ref(4)},
			Code: "late", At: at}),
			rollout.NoSuchRun)
		f.ok(f.Purge(f.ctx, run))
	})
}

// TestAlarmsAreRaisedOnce: to one of those who look, when they have lasted, and taken back to one.
func TestAlarmsAreRaisedOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		for i, look := range []struct {
			sec           int
			patience      map[runstatus.AlarmCode]time.Duration
			raised, ended []runstatus.AlarmCode
		}{
			{0, nil, nil, nil},
			{1, map[runstatus.AlarmCode]time.Duration{"slow": 10 * time.Second, "fast": 0}, []runstatus.AlarmCode{"fast"}, nil},
			{1, map[runstatus.AlarmCode]time.Duration{"slow": 10 * time.Second, "fast": 0}, nil, nil},
			{11, map[runstatus.AlarmCode]time.Duration{"slow": 10 * time.Second}, []runstatus.AlarmCode{"slow"},
				[]runstatus.AlarmCode{"fast"}},
			{12, map[runstatus.AlarmCode]time.Duration{"slow": 10 * time.Second, "brief": 5 * time.Second}, nil, nil},
			{13, nil, nil, []runstatus.AlarmCode{"slow"}},
			{14, nil, nil, nil},
			{30, map[runstatus.AlarmCode]time.Duration{"brief": 5 * time.Second}, nil, nil},
		} {
			raised, ended, err := f.StandAlarms(f.ctx, run, start.Add(time.Duration(look.sec)*time.Second),
				standingFor(look.patience))
			f.ok(err)
			if !slices.Equal(raised, look.raised) || !slices.Equal(ended, look.ended) {
				t.Errorf("look %d: %v raised, %v ended", i, raised, ended)
			}
		}
	})
}

func standingFor(patience map[runstatus.AlarmCode]time.Duration) (standing []buffer.StandingAlarm) {
	for code, wait := range patience {
		standing = append(standing, buffer.StandingAlarm{Alarm: runstatus.Alarm{Code: code}, Patience: wait})
	}
	return standing
}
