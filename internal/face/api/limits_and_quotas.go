package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// DefaultLimits is what nobody notices who uses the service as it is meant to be used.
func DefaultLimits() Limits {
	return Limits{
		Runs: 50, GamesPerRun: 8192, Requests: 256, WaitingClaims: 4096, Streams: 256, Connections: 8192,
		ConnectionsPerAddress: 128, StepMetricsBytes: 32 << 10,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ value, or *int }{
		{&l.Runs, &d.Runs}, {&l.GamesPerRun, &d.GamesPerRun}, {&l.Requests, &d.Requests},
		{&l.WaitingClaims, &d.WaitingClaims},
		{&l.Streams, &d.Streams}, {&l.Connections, &d.Connections}, {&l.ConnectionsPerAddress, &d.ConnectionsPerAddress},
		{&l.StepMetricsBytes, &d.StepMetricsBytes},
	} {
		if *f.value == 0 {
			*f.value = *f.or
		}
	}
	return l
}

func (l Limits) validate() error {
	for _, n := range []int{
		l.Runs, l.GamesPerRun, l.Requests, l.WaitingClaims, l.Streams, l.Connections, l.ConnectionsPerAddress,
		l.StepMetricsBytes,
	} {
		if n < 0 {
			return errors.New("limits: 0, which is the default, or more")
		}
	}
	return nil
}

// Bounds that nobody needs to change.
const (
	maxStepMetrics = 500             // figures in one step record
	maxMetricName  = 200             // bytes of a figure's name
	answerBytes    = 16 << 20        // about as much is one answer of a list that has pages
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

// gates are the bounds of what is in progress at a time.
type gates struct {
	requests, changes, starts, publishes, lists, diagnoses, analyses, waiting, batches, readings, streams *gate
}

func newGates(l Limits) gates {
	return gates{
		requests:  newGate(l.Requests, 3*l.Requests/4, patience),
		changes:   newGate(changesAtOnce, changesAtOnce/2, patience),
		starts:    newGate(startsAtOnce, startsAtOnce, patience),
		publishes: newGate(publishesAtOnce, publishesPerRun, 0),
		lists:     newGate(listsAtOnce, listsAtOnce/2, 2*patience),
		diagnoses: newGate(diagnosesAtOnce, diagnosesAtOnce/2, 0),
		analyses:  newGate(analysesAtOnce, 1, diagnosisTimeout),
		waiting:   newGate(l.WaitingClaims, 3*l.WaitingClaims/4, 0),
		batches:   newGate(batchesAtOnce, batchesAtOnce/2, batchPatience),
		readings:  newGate(readingsAtOnce, readingsAtOnce/2, batchPatience),
		streams:   newGate(l.Streams, 3*l.Streams/4, 0),
	}
}

// resize gives the gates that have a key in the configuration its value.
func (g gates) resize(l Limits) {
	g.requests.resize(l.Requests, 3*l.Requests/4)
	g.waiting.resize(l.WaitingClaims, 3*l.WaitingClaims/4)
	g.streams.resize(l.Streams, 3*l.Streams/4)
}

// overloaded refuses a call that is not let in; what is too many of, and the key that allows more.
func overloaded(what string, key string) *Problem {
	text := "too many " + what + " at a time; ask again"
	if key != "" {
		text += ", or raise " + key + " in the service configuration"
	}
	return problem(codeOverloaded, text)
}

// pass lets a call of an operation through its gate, and turns it away when it is not let in within a
// bounded time.
func (s *Server) pass(hc huma.Context, next func(huma.Context)) {
	id, run := hc.Operation().OperationID, hc.Param("run")
	var g *gate
	what, key := "requests", "limits.requests"
	switch {
	case id == "claim-step" || id == "show-batch" || id == "follow-events" || id == "follow-fleet-events":
		next(hc) // They have gates of their own.
		return
	case id == "start-run":
		g, what, key = s.gates.starts, "starts of runs", ""
	case id == "publish-policy":
		g, what, key = s.gates.publishes, "publications", ""
	case id == "diagnose-run":
		g, what, key = s.gates.diagnoses, "diagnoses", ""
	case id == "list-steps":
		g, what, key = s.gates.lists, "lists of steps", ""
	case hc.Method() != http.MethodGet && id != "complete-step":
		g, what, key = s.gates.changes, "changes", ""
	default:
		g = s.gates.requests
	}
	leave, ok := g.enter(hc.Context(), run)
	if !ok {
		s.refuse(hc, overloaded(what, key))
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

// checkRuns refuses one run more than may go on at a time. A run that is there already is none more. Servers that
// start runs at the same moment may exceed the bound by a few.
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

// checkMetrics refuses more of a trainer's own figures than a step record is made for: every record is kept.
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
