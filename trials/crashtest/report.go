package crashtest

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// Summary is the outcome in one line of JSON.
type Summary struct {
	Seed         int64          `json:"seed"`
	Faults       int            `json:"faults"`
	ByKind       map[string]int `json:"by_kind"`
	Steps        int            `json:"steps"`
	Trajectories int            `json:"trajectories"`
	// trajectories that a step should have had, or that left the account
	Lost           int   `json:"lost"`
	Duplicated     int   `json:"duplicated"`      // trajectories in two steps, or twice in one
	Holes          int   `json:"holes"`           // steps not trained on, or not recorded
	WrongVersion   int   `json:"wrong_version"`   // turns whose version is not the adapter that answered
	WrongWeights   int   `json:"wrong_weights"`   // turns of other weights than were published, and names of two
	Stuck          int   `json:"stuck"`           // faults after which nothing went on within their bound
	RepeatedTokens int64 `json:"repeated_tokens"` // that engines generated for a turn already answered
	Again          int   `json:"generated_again"` // calls of programs that engines generated after they were answered
	// Rollbacks are how often Redis was made to come back older while a run went on. Each was detected, repaired and
	// shown, or harmless: nothing was lost that a trainer had been told.
	Rollbacks         int     `json:"rollbacks"`
	RollbacksDetected int     `json:"rollbacks_detected"`
	RollbacksHarmless int     `json:"rollbacks_harmless"`
	Repairs           int     `json:"repairs"`        // of accounts, those after other faults included
	RecoveryP50       float64 `json:"recovery_p50_s"` // of all measured kills
	RecoveryP99       float64 `json:"recovery_p99_s"`
}

// Report is a summary, what it rests on, and everything that went against a promise.
type Report struct {
	Summary    Summary
	Recovery   []Recovery // by what was killed
	Claims     int        // claims repeated and compared
	Shares     int        // batches claimed in shares, put together and compared
	Rewound    int        // steps trained again because a trainer went back to its checkpoint
	Refused    int        // calls with the generation of a replaced trainer that were refused, the trainers' own included
	Records    int        // records sent again, equal or not, and answered as promised
	Ahead      int        // batches granted while Temporal was unavailable
	Unled      int        // turns answered while Temporal was unavailable
	Turns      int        // turns compared with what engines answered
	Calls      int        // of programs, compared with one another and with what engines generated
	OutTokens  int64      // generated altogether
	Lost       int        // batches that were lost with a Redis that came back older, and claims of them refused
	Dropped    map[rollout.Code]int64
	Violations []string
}

// take adds one run's findings.
func (r *Report) take(o outcome, f findings) {
	r.Summary.Steps += f.steps
	r.Summary.Trajectories += f.trajectories
	r.Summary.Lost += f.lost
	r.Summary.Duplicated += f.duplicated
	r.Summary.Holes += f.holes
	r.Summary.WrongVersion += f.wrongVersion
	r.Summary.WrongWeights += f.wrongWeights
	r.Turns += f.turns
	r.Summary.Again += f.again
	r.Calls += f.calls
	r.Claims += o.claims
	r.Shares += o.shares
	r.Records += o.resent
	r.Ahead += o.ahead
	r.Rewound += f.rewound
	r.Refused += f.refused + o.refused
	r.Lost += len(o.lostBatches)
	r.Summary.Repairs += o.repairs
	for code, n := range o.account.Drops {
		r.Dropped[code] += n
	}
	for _, v := range f.violations {
		r.Violations = append(r.Violations, fmt.Sprintf("%s: %s", o.plan.label(), v))
	}
}

func (r *Report) finish(in *injector, rec *recorder, w *watch) {
	r.Summary.ByKind = map[string]int{}
	for _, d := range in.done {
		r.Summary.Faults++
		r.Summary.ByKind[string(d.Kind)]++
	}
	r.Summary.RepeatedTokens, r.OutTokens = rec.repeated()
	r.Recovery = recoveries(in.done, w, rec)
	if in.service.cfg.Deck == Names {
		r.Recovery = recoveriesOfNames(in.done)
	}
	r.Unled = unled(in.done, rec)
	b := in.rollbacks
	r.Summary.Rollbacks, r.Summary.RollbacksDetected, r.Summary.RollbacksHarmless = b.injected, b.detected, b.harmless
	if v := b.violation(); v != "" {
		r.Violations = append(r.Violations, v)
	}
	r.Violations = append(r.Violations, in.violations...)
	r.Summary.Stuck = in.stuck
	for _, name := range rec.ambiguous() {
		r.Summary.WrongWeights++
		r.Violations = append(r.Violations, fmt.Sprintf("adapter %s answered with other weights at different times", name))
	}
	var all []float64
	for _, rv := range r.Recovery {
		if rv.kill() || in.service.cfg.Deck == Names {
			all = append(all, rv.Seconds...)
		}
	}
	r.Summary.RecoveryP50, r.Summary.RecoveryP99 = quantile(all, 0.5), quantile(all, 0.99)
}

// Err is nil when every promise was kept.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var errs []error
	for _, v := range r.Violations {
		errs = append(errs, errors.New(v))
	}
	return errors.Join(errs...)
}
