package api

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Limits bounds what callers may have. A zero takes the default. Each is a key of the same name under limits in the
// service configuration, which a refusal names.
type Limits struct {
	Runs          int // that go on at a time, in the deployment
	GamesPerRun   int // that a run may have outstanding: depth x groups_per_step x (samples + oversample)
	Requests      int // in progress at a time, in this server; claims that wait and streams are not among them
	WaitingClaims int // at a time, in this server
	Streams       int // of events, at a time, in this server
	Connections   int // open at a time, in this server; the process's limit of open files lowers it

	ConnectionsPerAddress int // open at a time without having shown a token
	StepMetricsBytes      int // of the metrics of one step record, as JSON
}

// DefaultLimits are the limits that normal use never reaches.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func (l Limits) withDefaults() Limits {
	return Limits{
		Runs: cmp.Or(l.Runs, 50), GamesPerRun: cmp.Or(l.GamesPerRun, 8192), Requests: cmp.Or(l.Requests, 256),
		WaitingClaims: cmp.Or(l.WaitingClaims, 4096), Streams: cmp.Or(l.Streams, 256),
		Connections:           cmp.Or(l.Connections, 8192),
		ConnectionsPerAddress: cmp.Or(l.ConnectionsPerAddress, 128),
		StepMetricsBytes:      cmp.Or(l.StepMetricsBytes, 32<<10),
	}
}

// Bounds that no deployment needs to change.
const (
	maxStepMetrics = 500             // figures in one step record
	maxMetricName  = 200             // bytes of a figure's name
	answerBytes    = 16 << 20        // about the most in one page of a list
	patience       = 5 * time.Second // how long a request waits to be let in
	batchPatience  = 30 * time.Second

	// In one server, at a time:
	changesAtOnce   = 16  // changes of runs and of the fleet
	startsAtOnce    = 4   // starts of runs: each counts those that there are before
	publishesAtOnce = 256 // publications: each lasts as long as engines load
	publishesPerRun = 8
	listsAtOnce     = 4  // lists of step records
	diagnosesAtOnce = 64 // calls that wait for a diagnosis
	analysesAtOnce  = 2  // diagnoses being made
	batchesAtOnce   = 64 // batches being read and delivered
	readingsAtOnce  = 4  // batches being read by others than trainers
)

// gates are the bounds of what is in progress at a time, by name.
type gates map[string]namedGate

// namedGate says what a gate lets in, and which key of the configuration lets in more, if one does.
type namedGate struct {
	*gate
	what, key string
}

func newGates(l Limits) gates {
	return gates{
		"requests":     {newGate(l.Requests, 3*l.Requests/4, patience), "requests", "limits.requests"},
		"changes":      {newGate(changesAtOnce, changesAtOnce/2, patience), "changes", ""},
		"starts":       {newGate(startsAtOnce, startsAtOnce, patience), "starts of runs", ""},
		"publications": {newGate(publishesAtOnce, publishesPerRun, 0), "publications", ""},
		"lists":        {newGate(listsAtOnce, listsAtOnce/2, 2*patience), "lists of steps", ""},
		"diagnoses":    {newGate(diagnosesAtOnce, diagnosesAtOnce/2, 0), "diagnoses", ""},
		"analyses":     {newGate(analysesAtOnce, 1, diagnosisTimeout), "diagnoses", ""},
		"waiting":      {newGate(l.WaitingClaims, 3*l.WaitingClaims/4, 0), "claims that wait", "limits.waiting_claims"},
		"batches":      {newGate(batchesAtOnce, batchesAtOnce/2, batchPatience), "batches on their way", ""},
		"readings":     {newGate(readingsAtOnce, readingsAtOnce/2, batchPatience), "batches being read", ""},
		"streams":      {newGate(l.Streams, 3*l.Streams/4, 0), "streams of events", "limits.streams"},
	}
}

// resize gives the gates that have a key in the configuration its value.
func (g gates) resize(l Limits) {
	for name, most := range map[string]int{"requests": l.Requests, "waiting": l.WaitingClaims, "streams": l.Streams} {
		g[name].resize(most, 3*most/4)
	}
}

// enter lets a call through a gate, or refuses it when it is not let in within a bounded time. leave must be called
// once unless it is refused.
func (g gates) enter(ctx context.Context, name string, run rollout.RunName) (leave func(), refused *Problem) {
	gate := g[name]
	if leave, ok := gate.enter(ctx, string(run)); ok {
		return leave, nil
	}
	text := "too many " + gate.what + " at a time; ask again"
	if gate.key != "" {
		text += ", or raise " + gate.key + " in the service configuration"
	}
	return nil, problem(codeOverloaded, text)
}

// pass lets a call of an operation through its gate, unless it goes through one by itself.
func (s *Server) pass(hc huma.Context, next func(huma.Context)) {
	gate := operations()[hc.Operation().OperationID].gate()
	if gate == "own" {
		next(hc)
		return
	}
	leave, refused := s.gates.enter(hc.Context(), gate, rollout.RunName(hc.Param("run")))
	if refused != nil {
		s.refuse(hc, refused)
		return
	}
	defer leave()
	next(hc)
}

// refuse answers with a problem from a middleware of huma.
func (s *Server) refuse(hc huma.Context, p *Problem) {
	p.RequestID = requestID(hc.Context())
	callOf(hc.Context()).code = p.code
	for name, values := range p.header {
		for _, v := range values {
			hc.SetHeader(name, v)
		}
	}
	hc.SetHeader("Content-Type", p.ContentType(""))
	hc.SetStatus(p.Status)
	_ = s.api.Marshal(hc.BodyWriter(), "application/json", p) // A client that has gone needs no answer.
}

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

// checkRuns refuses a run beyond the quota of active runs. A run that exists already is never refused. Servers that
// start runs at the same moment may exceed the quota by a few.
func (s *Server) checkRuns(ctx context.Context, name rollout.RunName) error {
	active, err := s.deps.Store.Active(ctx)
	if err != nil {
		return err
	}
	for _, run := range active {
		if run.Spec.Name == name {
			return nil
		}
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
