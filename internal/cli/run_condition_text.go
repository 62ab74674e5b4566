package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

// throttleText says which bound keeps a run from launching as many groups as its depth asks for; empty when none does.
func throttleText(v runView) string {
	b := v.Spec.Buffer
	outstanding := fmt.Sprintf("%d of %d groups outstanding", v.Outstanding, b.Outstanding())
	switch v.Throttle {
	case "":
		return ""
	case rollout.ThrottleBytes:
		return fmt.Sprintf("launches no more: buffer.max_bytes reached, %s stored, %s", storedText(v), outstanding)
	case rollout.ThrottleStaleness:
		return fmt.Sprintf("launches no more until a step is completed: buffer.max_staleness %d, %s",
			b.MaxStaleness, outstanding)
	case rollout.ThrottleFailures:
		return fmt.Sprintf("launches are spaced out, up to 30 s: all groups that ended lately failed, %s", outstanding)
	}
	return fmt.Sprintf("launches no more: %s, %s", v.Throttle, outstanding)
}

// storedText is the stored bytes, of those that may be.
func storedText(v runView) string {
	if limit := v.Spec.Buffer.MaxBytes; limit > 0 {
		return units.Bytes(v.Buffer.Bytes) + " of " + units.Bytes(limit)
	}
	return units.Bytes(v.Buffer.Bytes)
}

// rewardVarianceText says how many of the latest groups teach nothing; empty before the first.
func rewardVarianceText(s rollout.RewardVariance) string {
	switch {
	case s.Groups == 0:
		return ""
	case s.Collapsed:
		return fmt.Sprintf("%d of the last %d groups had equal rewards: %s to learn; check rewards, temperature, opponents",
			s.ZeroVariance, s.Groups, diagnosis.Learnable(s))
	}
	return fmt.Sprintf("%d of the last %d groups had equal rewards", s.ZeroVariance, s.Groups)
}

// rollbackText is the latest time that Redis came back older than it was, with the steps whose batches it lost.
func rollbackText(s rollout.RunStatus, now time.Time) string {
	b := s.Rollback
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s", b, ago(b.At, now))
	if n := len(b.LostBatches); n > 0 {
		text += fmt.Sprintf("; without a batch: steps %s", strings.Trim(fmt.Sprint(b.LostBatches), "[]"))
	}
	if s.Rollbacks > 1 {
		text += fmt.Sprintf("; %d times in all", s.Rollbacks)
	}
	return text
}

// alarmText is what keeps a run's games from being played, on a line.
func alarmText(alarms []rollout.Alarm) string {
	texts := make([]string, len(alarms))
	for i, a := range alarms {
		texts[i] = a.Text
	}
	return strings.Join(texts, "; ")
}

// alarmCodes is what makes an alarm news: its figures change all the time.
func alarmCodes(alarms []rollout.Alarm) string {
	codes := make([]string, len(alarms))
	for i, a := range alarms {
		codes[i] = string(a.Code)
	}
	return strings.Join(codes, " ")
}

// conditionText is what is wrong with an active run, in two words or so.
func conditionText(r rollout.RunStatus) string {
	var parts []string
	if r.RewardVariance.Collapsed {
		parts = append(parts, fmt.Sprintf("no reward variance (%d of %d groups)", r.RewardVariance.ZeroVariance,
			r.RewardVariance.Groups))
	}
	if r.Throttle != "" {
		parts = append(parts, "throttled by "+string(r.Throttle))
	}
	return strings.Join(parts, ", ")
}

// groupText is when a group's games are enough, where that is not simply when all have ended.
func groupText(g rollout.GroupSpec) string {
	parts := []string{fmt.Sprintf("%d games", g.Samples)}
	if g.Oversample > 0 {
		parts = append(parts, fmt.Sprintf("%d more started", g.Oversample))
	}
	if g.MinSamples < g.Samples {
		enough := fmt.Sprintf("%d suffice", g.MinSamples)
		if g.Grace > 0 {
			enough += fmt.Sprintf(" after %v of grace", g.Grace)
		}
		parts = append(parts, enough)
	}
	if g.ZeroVariance == rollout.DropZeroVariance {
		parts = append(parts, "dropped when rewards are equal")
	}
	if len(parts) == 1 {
		return ""
	}
	return strings.Join(parts, ", ")
}

func share(n, of int64) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, of))) }
