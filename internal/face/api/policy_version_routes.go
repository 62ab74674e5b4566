package api

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

type PolicyPath struct {
	RunPath
	Version rollout.PolicyVersion `path:"version" minimum:"1" doc:"The version, from 1; 0 is the base model"`
}

func (s *Server) publish(ctx context.Context, in *struct {
	PolicyPath
	Body struct {
		Path       string                    `json:"path" minLength:"1" maxLength:"4096" doc:"The adapter's directory, as the engines see it"`
		Generation rollout.TrainerGeneration `json:"generation,omitempty" minimum:"0" doc:"As answered to POST /v1/runs/{run}/trainer; a trainer that was replaced is refused. Left out, nothing is checked: an operator may publish too"`
	}
}) (runstatus.Policy, error) {
	if err := s.current(ctx, in.Run, in.Body.Generation); err != nil {
		return runstatus.Policy{}, err
	}
	waiting, leave := s.untilStopped(ctx)
	defer leave()
	policy, err := s.deps.Control.Publish(waiting, in.Run, in.Version, in.Body.Path, in.Body.Generation)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		err = rollout.Refuse(rollout.Unavailable,
			"this server is stopping, and version %d of %s does not serve yet; publish it again to go on waiting",
			in.Version, in.Run)
	}
	if rollout.Refused(err, rollout.OutOfOrder) && s.followsAccount(ctx, in.Run, in.Version) {
		s.hint(in.Run)
		err = rollout.Behind(in.Run, in.Version)
	}
	if err == nil {
		s.waiters.wakeAll(in.Run)
	}
	return policy, err
}

// followsAccount reports whether a version that the run's workflow refuses is the newest of the account, or the next:
// Temporal came back older.
func (s *Server) followsAccount(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion) bool {
	account, err := s.deps.Store.Account(ctx, run)
	return err == nil && account.Version > 0 && (v == account.Version || v == account.Version+1)
}

// current refuses a trainer process that was replaced. Generation 0 stands for no particular process.
func (s *Server) current(ctx context.Context, run rollout.RunName, generation rollout.TrainerGeneration) error {
	if generation == 0 {
		return nil
	}
	account, err := s.deps.Store.Account(ctx, run)
	if err != nil {
		return s.missed(ctx, run, err)
	}
	if !account.Confirmed() && account.Mark.Era > 0 {
		s.hint(run)
		return rollout.Refuse(rollout.Unavailable, "Redis was restarted, failed over or restored, and run %s compares its "+
			"account first; ask again", run)
	}
	if account.Generation != generation {
		return rollout.Refuse(rollout.Fenced, "run %s is served to the trainer process with generation %d, not %d; this "+
			"process was replaced and must not publish", run, account.Generation, generation)
	}
	return nil
}

type policyList struct {
	Policies []runstatus.Policy `json:"policies"`
}

func (s *Server) listPolicies(ctx context.Context, in *RunPath) (policyList, error) {
	status, err := s.deps.Store.Status(ctx, in.Run)
	return policyList{listed(s.troubled(ctx, status.Policies))}, err
}

// troubled gives serving versions the reason why not every engine serves them, and their proofs, as engines report
// them. Both are left out when the engines cannot be listed.
func (s *Server) troubled(ctx context.Context, policies []runstatus.Policy) []runstatus.Policy {
	if !slices.ContainsFunc(policies, func(p runstatus.Policy) bool { return p.State == runstatus.PolicyServing }) {
		return policies
	}
	engines, err := s.deps.Fleet.List(ctx)
	if err != nil {
		s.log(ctx, slog.LevelWarn, "list engines", err)
		return policies
	}
	policies = slices.Clone(policies)
	for i := range policies {
		p := &policies[i]
		if p.State == runstatus.PolicyServing && p.Reason == "" {
			p.Reason = troubleOf(p.Adapter, engines)
		}
		for _, e := range engines {
			if proof, known := e.Proofs[p.Adapter]; known {
				if p.Proofs == nil {
					p.Proofs = map[rollout.EngineID]enginestate.AdapterProof{}
				}
				p.Proofs[e.ID] = proof
			}
		}
	}
	return policies
}

func troubleOf(adapter string, engines []enginestate.Engine) string {
	first, more := "", 0
	for _, e := range engines {
		switch why := e.Troubles[adapter]; {
		case why == "":
		case first == "":
			first = fmt.Sprintf("engine %s: %s", e.ID, strings.TrimPrefix(why, fmt.Sprintf("engine %s: ", e.ID)))
		default:
			more++
		}
	}
	if more > 0 {
		first = fmt.Sprintf("%s; and %d more engines", first, more)
	}
	return first
}

func (s *Server) showPolicy(ctx context.Context, in *PolicyPath) (runstatus.Policy, error) {
	status, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return runstatus.Policy{}, err
	}
	for _, policy := range status.Policies {
		if policy.Version == in.Version {
			return policy, nil
		}
	}
	if in.Version <= status.PolicyVersion {
		return runstatus.Policy{Version: in.Version, Adapter: in.Version.Adapter(in.Run), State: runstatus.PolicyRetired}, nil
	}
	return runstatus.Policy{}, problem(codeNoPolicy, fmt.Sprintf(
		"version %d of run %s was never published; the newest is %d",
		in.Version, in.Run, status.PolicyVersion))
}
