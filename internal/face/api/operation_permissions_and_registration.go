package api

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/goccy/go-yaml"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout/spec"
)

//go:embed operations.yaml
var operationsFile []byte

// operation is the permission that a call needs and its description; operations.yaml explains the fields. The file must
// have every operation: the server does not start otherwise.
type operation struct {
	ID, Call, Tag, Gate, Doing, Summary, Details string

	Role  access.Role
	Scope scope
	Data  bool
}

// scope is the kind of object that an operation is about.
type scope string

const (
	ofRun   scope = "run"   // the run in its path: the caller's runs must hold it
	ofFleet scope = "fleet" // what all runs share: the caller's runs must be all
)

// operations is every operation by its id.
var operations = sync.OnceValue(func() map[string]operation {
	var all []operation
	if err := yaml.UnmarshalWithOptions(operationsFile, &all, yaml.Strict()); err != nil {
		panic(fmt.Errorf("operations.yaml: %w", err)) // it is a part of the program
	}
	by := map[string]operation{}
	for _, one := range all {
		by[one.ID] = one
	}
	return by
})

// operation describes one call. Every one may end in a problem.
func (s *Server) operation(id string) huma.Operation {
	o, known := operations()[id]
	if !known {
		panic("operation " + id + " has no role; describe it in operations.yaml")
	}
	method, path, _ := strings.Cut(o.Call, " ")
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Tags: []string{o.Tag}, Summary: o.Summary,
		Description:  strings.TrimSpace(o.Details + " " + o.needs()),
		MaxBodyBytes: -1, BodyReadTimeout: -1, // The middleware has read the body, within its limits.
		Responses: map[string]*huma.Response{"default": s.problemResponse()},
	}
}

// registerOperations has every operation answered. Those whose documents are their own come first.
func (s *Server) registerOperations() {
	s.registerStart()
	s.registerClaim()
	s.registerRecord()
	s.registerEvents()
	s.registerPrograms()
	s.registerVLLM()
	answered(s, "list-runs", s.listRuns)
	answered(s, "show-run", s.showRun)
	patched(s, "change-run", spec.ChangeSchema(), s.changeRun)
	answered(s, "stop-run", s.stopRun)
	answered(s, "delete-run", s.deleteRun)
	answered(s, "list-waits", s.listWaits)
	answered(s, "attach-trainer", s.attach)
	huma.Register(s.api, s.operation("send-heartbeat"), s.heartbeat)
	answered(s, "list-steps", s.listSteps)
	answered(s, "show-step", s.showStep)
	answered(s, "show-curve", s.showCurve)
	answered(s, "show-ratings", s.showRatings)
	s.registerEvaluations()
	answered(s, "publish-policy", s.publish)
	answered(s, "list-policies", s.listPolicies)
	answered(s, "show-policy", s.showPolicy)
	answered(s, "list-engines", s.listEngines)
	answered(s, "show-engine", s.showEngine)
	answered(s, "add-engine", s.addEngine)
	answered(s, "drain-engine", s.drainEngine)
	huma.Register(s.api, s.operation("remove-engine"), s.removeEngine)
	answered(s, "show-fleet", s.scaled)
	patched(s, "change-fleet", scalingSchema(), s.changeFleet)
	answered(s, "list-workers", s.listWorkers)
	answered(s, "show-status", s.showStatus)
	answered(s, "list-dead-letters", s.listDeadLetters)
	answered(s, "replay-dead-letters", s.replayDeadLetters)
	answered(s, "drop-dead-letters", s.dropDeadLetters)
	huma.Register(s.api, s.operation("forget-sink"), s.forgetSink)
	answered(s, "list-games", s.listGames)
	answered(s, "list-turns", s.listTurns)
	answered(s, "show-turn", s.showTurn)
	answered(s, "probe-run", s.probeRun)
	answered(s, "end-probe", s.endProbe)
	answered(s, "diagnose-run", s.diagnose)
	answered(s, "show-game", s.showGame)
}

// needs says what a caller needs.
func (o operation) needs() string {
	if o.Role == "" {
		return "Needs the API key of the lease."
	}
	return fmt.Sprintf("Needs the role %s.", o.Role)
}

// gate is the gate that an operation goes through.
func (o operation) gate() string {
	switch {
	case o.Gate != "":
		return o.Gate
	case strings.HasPrefix(o.Call, http.MethodGet):
		return "requests"
	}
	return "changes"
}

// answered registers a call that answers with one document.
func answered[I, O any](s *Server, id string, do func(context.Context, *I) (O, error)) {
	answeredAs(s, s.operation(id), do)
}

func answeredAs[I, O any](s *Server, op huma.Operation, do func(context.Context, *I) (O, error)) {
	doing := operations()[op.OperationID].Doing
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*struct{ Body O }, error) {
		document, err := do(ctx, in)
		if err != nil {
			return nil, s.fail(ctx, doing, err)
		}
		return &struct{ Body O }{document}, nil
	})
}

// listed is a list as JSON writes one: of nothing it is empty, and not null.
func listed[T any](all []T) []T { return append([]T{}, all...) }

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
)
