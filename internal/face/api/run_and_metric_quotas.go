package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// quota refuses more of something than the configuration allows, with the value, the bound and the key that raises it.
func quota(what string, value, bound int64, key, instead string) error {
	return rollout.Refuse(rollout.QuotaExceeded, "%s: %s, and limits.%s allows %s; %s, or raise limits.%s in the "+
		"service configuration",
		what, strconv.FormatInt(value, 10), key, strconv.FormatInt(bound, 10), instead, key)
}

// checkGames refuses a run that would have more games outstanding than one may have.
func (s *Server) checkGames(spec runspec.Spec) error {
	games := spec.Games()
	if bound := int64(s.bounds().Limits.GamesPerRun); games > bound {
		return quota(fmt.Sprintf("games outstanding of run %s (buffer.depth %d x buffer.groups_per_step %d x %d of "+
			"group.samples and group.oversample)",
			spec.Name.Plain(), spec.Buffer.Depth, spec.Buffer.GroupsPerStep, spec.Group.Samples+spec.Group.Oversample),
			games, bound, "games_per_run", "ask for fewer")
	}
	return nil
}

// checkRuns refuses a run beyond the quota of active runs. A run that exists already is never refused, and evaluations
// take no place of training. Servers that start runs at the same moment may exceed the quota by a few.
func (s *Server) checkRuns(ctx context.Context, spec runspec.Spec) error {
	active, err := s.deps.Store.Active(ctx)
	if err != nil {
		return err
	}
	for _, run := range active {
		if run.Spec.Name == spec.Name {
			return nil
		}
	}
	if spec.Evaluation.Run == "" {
		active = slices.DeleteFunc(active, func(run runstatus.RunStatus) bool { return run.Spec.Evaluation.Run != "" })
	}
	if len(active) >= s.bounds().Limits.Runs {
		return quota("runs that go on", int64(len(active)), int64(s.bounds().Limits.Runs), "runs", "stop one first")
	}
	return nil
}

// checkMetrics bounds the number of a trainer's own figures: every step record is kept.
func (s *Server) checkMetrics(metrics map[string]float64) error {
	if len(metrics) > maxStepMetrics {
		return problem(rollout.Invalid, fmt.Sprintf("metrics: %d figures; a step record may have %d",
			len(metrics), maxStepMetrics))
	}
	size := 2
	for name, value := range metrics {
		if len(name) > maxMetricName {
			return problem(rollout.Invalid, fmt.Sprintf("metrics: a name of %d bytes; %d are the most",
				len(name), maxMetricName))
		}
		size += len(strconv.Quote(name)) + len(strconv.FormatFloat(value, 'g', -1, 64)) + 2
	}
	if bound := s.bounds().Limits.StepMetricsBytes; size > bound {
		return problem(rollout.Invalid, fmt.Sprintf("metrics: %d bytes, and limits.step_metrics_bytes allows %d; send "+
			"fewer figures, or raise it in the service configuration", size, bound))
	}
	return nil
}
