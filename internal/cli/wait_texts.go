package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/waitline"
)

// prefillText is how far the buffer is filled before step 0; empty: it is not being filled.
func prefillText(v runView) string {
	want := int64(v.Spec.Buffer.GroupsPerStep)
	if v.Spec.Buffer.Prefill != rollout.PrefillBatch {
		want *= int64(v.Spec.Buffer.Depth)
	}
	if b := v.Buffer; v.State.Over() || v.NextStep > 0 || b.Claimed+b.Completed > 0 || want == 0 || b.Ready >= want {
		return ""
	}
	return fmt.Sprintf("prefill  %s %d of %d groups ready", waitline.Bar(v.Buffer.Ready, want, 16), v.Buffer.Ready, want)
}

// publishingText is how far the newest version is loaded; empty: none is being loaded.
func publishingText(v runView) string {
	for _, p := range slices.Backward(v.Policies) {
		if p.State != rollout.PolicyLoading {
			continue
		}
		text := fmt.Sprintf("publish  v%d is being loaded, by %d engines so far", p.Version, len(p.LoadSec))
		if v.Fleet != nil && v.Fleet.Engines >= 1 {
			of := int64(v.Fleet.Engines + 0.5)
			text = fmt.Sprintf("publish  v%d %s loaded by %d of %d engines", p.Version,
				waitline.Bar(int64(len(p.LoadSec)), of, 16), len(p.LoadSec), of)
		}
		return text
	}
	return ""
}

// waitDrained waits until an engine has finished what it has, or if it leaves is gone, and shows how much it still has.
func (s *session) waitDrained(ctx context.Context, c Client, id string, leaves bool) error {
	line := waitline.Start(s.Stderr, "draining "+id)
	defer line.End()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	most := int64(0)
	server := s.outage(patience)
	server.tell = line.Say
	for {
		e, _, err := apiclient.Get[rollout.Engine](ctx, c.Client, apiclient.EnginePath(id))
		switch {
		case ExitCode(err) == ExitNotFound:
			line.End()
			s.say("engine %s has left", id)
			return nil
		case err == nil:
			left := int64(e.Load.Running + e.Load.Waiting)
			most = max(most, left)
			line.At(most-left, most, "requests", string(e.State))
			if e.State != rollout.EngineDraining {
				return &apiclient.Problem{Status: http.StatusConflict,
					Detail: fmt.Sprintf("engine %s is %s: somebody has added it again", id, e.State)}
			}
			if !leaves && left == 0 && e.Load.At.After(e.Since) && len(e.Adapters) == 0 {
				line.End()
				s.say("engine %s has finished what it had", id)
				return nil
			}
		}
		if err := server.after(err); err != nil {
			return err
		}
		if err := tick(ctx, ticker); err != nil {
			return err
		}
	}
}
