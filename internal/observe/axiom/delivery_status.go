package axiom

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// statusKeeper is the state of the sink, for concurrent readers. The store counts the outcomes of events.
type statusKeeper struct {
	target string

	mu     sync.Mutex
	status telemetry.SinkStatus
	oldest time.Time // of what is not delivered
}

// begin continues from the status of the previous deliverer.
func (k *statusKeeper) begin(before telemetry.SinkStatus, owner string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = before
	k.status.Sink, k.status.Target, k.status.Shipper = Name, k.target, owner
	if before.State == "" || before.State == telemetry.SinkStopped {
		k.status.State, k.status.Since, k.status.Reason, k.status.Advice = telemetry.SinkOK, now, "", ""
	}
}

func (k *statusKeeper) change(f func(*telemetry.SinkStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.status)
}

// now is the status at this moment.
func (k *statusKeeper) now(now time.Time) telemetry.SinkStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	s.UpdatedAt, s.LagSec = now, 0
	if !k.oldest.IsZero() {
		s.LagSec = max(0, now.Sub(k.oldest).Seconds())
	}
	return s
}

func (k *statusKeeper) healthy() bool { return k.now(time.Time{}).State == telemetry.SinkOK }

func (k *statusKeeper) request() {
	k.change(func(s *telemetry.SinkStatus) { s.Requests++ })
}

func (k *statusKeeper) behind(oldest time.Time) {
	k.change(func(*telemetry.SinkStatus) { k.oldest = oldest })
}

func (k *statusKeeper) delivered(any bool, refusal string, now time.Time) {
	k.change(func(s *telemetry.SinkStatus) {
		k.oldest = time.Time{} // until the next batch is read
		if refusal != "" {
			s.LastRefusal = refusal
		}
		if any {
			s.DeliveredAt = now
		}
	})
}

func (k *statusKeeper) stopped(now time.Time) {
	k.change(func(s *telemetry.SinkStatus) {
		if s.State == telemetry.SinkOK {
			s.State, s.Since, s.Reason, s.Advice = telemetry.SinkStopped, now, "the server that delivered was stopped", ""
		}
	})
}

// report adopts the state of a reaction. A change is shown to the other servers, and an important one logged and
// emitted: once, not with every try.
func (s *Shipper) report(ctx context.Context, fence int64, r reaction) {
	now := time.Now()
	var before, after telemetry.SinkStatus
	s.status.change(func(st *telemetry.SinkStatus) {
		before = *st
		if st.State != r.state {
			st.State, st.Since = r.state, now
		}
		st.Reason, st.Advice, st.NextTry = r.reason, r.advice, time.Time{}
		if r.pause > 0 {
			st.NextTry = now.Add(r.pause)
		}
		after = *st
	})
	if before.State == after.State {
		return
	}
	if fence > 0 {
		s.save(ctx, fence)
	}
	if after.State == telemetry.SinkOK {
		s.log.Info("telemetry: events are delivered to Axiom again", "dataset", s.cfg.Dataset,
			"after", now.Sub(before.Since).Round(time.Second))
	} else {
		s.log.Warn("telemetry: events are not delivered to Axiom; they stay in the store", "dataset", s.cfg.Dataset,
			"state", after.State, "reason", after.Reason, "advice", after.Advice, "next_try", r.pause.Round(time.Second))
	}
	s.emit.Emit(telemetry.Event{
		At: now, Key: fmt.Sprintf("%s/%d/%s", Name, now.UnixMilli(), after.State),
		Body: telemetry.SinkChanged{Sink: Name, State: after.State, Reason: after.Reason, Advice: after.Advice},
	})
}
