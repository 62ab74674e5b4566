package crashtest

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// terminateGroup terminates one group; every group that was in play then must leave the account or finish.
func (in *injector) terminateGroup(ctx context.Context) (back func(), err error) {
	p := in.watch.current()
	before, err := in.service.account(ctx, p)
	if err != nil {
		return nil, err
	}
	if _, err := in.service.temporal.terminate(ctx, "Group", 0); err != nil {
		return nil, err
	}
	playing := append(before.Queued, before.InFlight...)
	return func() {
		in.expect(ctx, Fault{Kind: TerminateGroup}, "no group that was in play still is", func(ctx context.Context) error {
			now, err := in.service.account(ctx, p)
			if err != nil || int(now.NextStep) >= p.cfg.Steps {
				return err
			}
			for _, seq := range playing {
				if contains(now.Queued, seq) || contains(now.InFlight, seq) {
					return fmt.Errorf("group %d is", seq)
				}
			}
			return nil
		})
	}, nil
}

func contains(all []rollout.GroupSeq, seq rollout.GroupSeq) bool {
	for _, s := range all {
		if s == seq {
			return true
		}
	}
	return false
}

// startAgain starts the run once more, as its operator does who sees that it is gone.
func (in *injector) startAgain(ctx context.Context) func() {
	p := in.watch.current()
	return func() {
		client, err := in.service.Client()
		if err != nil {
			in.complain("%v", err)
			return
		}
		in.expect(ctx, Fault{Kind: TerminateRun}, "the run can be started again", func(ctx context.Context) error {
			if err := client.StartRun(ctx, p.spec()); err != nil {
				return err
			}
			return in.service.temporal.runs("Run")(ctx)
		})
	}
}
