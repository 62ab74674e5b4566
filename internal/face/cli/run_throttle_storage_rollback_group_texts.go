package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// throttleText says which bound keeps a run from launching as many groups as its depth asks for; empty when none does.
func throttleText(v *tablerow.Run) string {
	b := v.Spec.Buffer
	outstanding := fmt.Sprintf("%d of %d groups outstanding", v.Outstanding, b.Outstanding())
	switch v.Throttle {
	case "":
		return ""
	case runstatus.ThrottleBytes:
		return fmt.Sprintf("launches no more: buffer.max_bytes reached, %s stored, %s", storedText(v), outstanding)
	case runstatus.ThrottleStaleness:
		return fmt.Sprintf("launches no more until a step is completed: buffer.max_staleness %d, %s",
			b.MaxStaleness, outstanding)
	case runstatus.ThrottleFailures:
		return fmt.Sprintf("launches are spaced out, up to 30 s: all groups that ended lately failed, %s", outstanding)
	}
	return fmt.Sprintf("launches no more: %s, %s", v.Throttle, outstanding)
}

// storedText is the stored bytes, of those that may be.
func storedText(v *tablerow.Run) string {
	if limit := v.Spec.Buffer.MaxBytes; limit > 0 {
		return units.Bytes(v.Buffer.Bytes) + " of " + units.Bytes(limit)
	}
	return units.Bytes(v.Buffer.Bytes)
}

// rewardVarianceText says how many of the latest groups teach nothing; empty before the first.
func rewardVarianceText(s runstatus.RewardVariance) string {
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
func rollbackText(s runstatus.RunStatus, now time.Time) string {
	b := s.Rollback
	if b == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s", b, tablerow.Ago(b.At, now))
	if n := len(b.LostBatches); n > 0 {
		text += fmt.Sprintf("; without a batch: steps %s", strings.Trim(fmt.Sprint(b.LostBatches), "[]"))
	}
	if s.Rollbacks > 1 {
		text += fmt.Sprintf("; %d times in all", s.Rollbacks)
	}
	return text
}

// groupText is when a group's games are enough, where that is not simply when all have ended.
func groupText(g runspec.GroupSpec) string {
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
	if g.ZeroVariance == runspec.DropZeroVariance {
		parts = append(parts, "dropped when rewards are equal")
	}
	if len(parts) == 1 {
		return ""
	}
	return strings.Join(parts, ", ")
}

func share(n, of int64) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(max(1, of))) }
