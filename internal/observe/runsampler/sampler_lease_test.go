package runsampler

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestOneServerSamplesWhateverTheClocksSay: servers whose clocks are minutes apart do not both take the lease, and the
// other one does when the first is not heard of any more.
func TestOneServerSamplesWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	first, second := d.samplers[0], d.samplers[1]
	for range 5 {
		d.ok(first.sampleAll(t.Context(), d.now))
		d.ok(second.sampleAll(t.Context(), d.now.Add(10*time.Minute)))
		if !first.Leads() || second.Leads() {
			t.Fatalf("the first samples: %t, the second: %t", first.Leads(), second.Leads())
		}
		d.now = d.now.Add(Interval)
		d.redis.FastForward(Interval)
	}
	d.redis.FastForward(leaseFor)
	d.ok(second.sampleAll(t.Context(), d.now.Add(10*time.Minute)))
	if !second.Leads() {
		t.Error("nobody samples after the first was killed")
	}
}

// TestWaitsOfARunThatEndedUnderAnotherServer: a run begins and ends while another server samples, and that one is
// killed before it has told of the last wait. The first, whose turn it is again, tells of it.
func TestWaitsOfARunThatEndedUnderAnotherServer(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	ctx := t.Context()
	d.state(runstatus.RunPaused)
	d.ok(d.buffer.SaveStatus(ctx, runstatus.RunStatus{Spec: d.spec, State: runstatus.RunCompleted, StartedAt: d.now}, 0))
	for range 3 { // nothing is left to be told
		d.ok(d.samplers[0].sampleAll(ctx, d.now))
	}
	if left, err := d.buffer.Winding(ctx); err != nil || len(left) > 0 {
		t.Fatalf("not wound up: %v, %v", left, err)
	}
	d.redis.FastForward(leaseFor)
	d.ok(d.samplers[1].sampleAll(ctx, d.now))
	d.state(runstatus.RunRunning)
	d.ok(d.samplers[1].sampleAll(ctx, d.now))
	d.ok(d.samplers[0].sampleAll(ctx, d.now)) // it stands by
	d.state(runstatus.RunCompleted)
	d.redis.FastForward(leaseFor) // the second is killed
	d.ok(d.samplers[0].sampleAll(ctx, d.now))
	if done, err := d.samplers[1].finish(ctx, demo, d.now); err != nil || !done {
		t.Errorf("the account of the run's waits lacks the end, %v", err)
	}
}
