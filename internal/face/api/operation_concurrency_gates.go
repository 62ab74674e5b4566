package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/rollout"
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
