package axiom

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/observe/axiom/resources"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// Events is what a Shipper needs of the sink in the event store.
type Events interface {
	// Scopes is the runs, "" the fleet, that have events after the sink's cursor.
	Scopes(ctx context.Context) ([]rollout.RunName, error)
	// Unshipped is up to limit events of a scope after the cursor, oldest first.
	Unshipped(ctx context.Context, scope rollout.RunName, limit int) (delivery.Portion, error)
	// Acknowledge moves the cursor behind these events. It is delivery.ErrFenced if another server has taken over.
	Acknowledge(ctx context.Context, fence int64, p delivery.Portion) error
	// DeadLetter keeps an event that the sink refused. It is delivery.ErrDeadLettersFull if there is no room.
	DeadLetter(ctx context.Context, r store.Record, reason string) error
	// Lease makes owner the one that delivers for as long as ttl, if no other is; again, it goes on. Release gives it
	// back.
	Lease(ctx context.Context, owner string, ttl time.Duration) (fence int64, mine bool, err error)
	Release(ctx context.Context, owner string) error
	// SinkStatus and SaveSinkStatus keep what the server that delivers says of the sink.
	SinkStatus(ctx context.Context) (telemetry.SinkStatus, error)
	SaveSinkStatus(ctx context.Context, fence int64, status telemetry.SinkStatus) error
}

var _ Events = (*delivery.Sink)(nil)

const (
	closeGrace   = 5 * time.Second // for what is left when a server stops
	refusedEvery = 5 * time.Minute
	redisPause   = time.Second // before the store is asked again that did not answer
)

// Shipper delivers the events of a deployment while it holds the lease; until then it stands by.
type Shipper struct {
	cfg    Config
	client *client
	events Events
	owner  string
	log    *slog.Logger
	emit   telemetry.Emitter
	jitter func() float64

	cancel context.CancelFunc
	ended  chan struct{}

	status statusKeeper
	sizes  batchSizes
	marks  *annotator

	store  retry.Outage
	rounds int // consecutive batches left because nothing of them passed
	unsaid int // events refused since the last was logged
	saidAt time.Time
}

// New checks the configuration. owner is this process's name among those that deliver; emit hears of changes of the
// sink's state. Nothing is sent until Start is called.
func New(cfg Config, events Events, owner string, log *slog.Logger, emit telemetry.Emitter) (*Shipper, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	s := &Shipper{cfg: cfg, client: c, events: events, owner: owner, log: log, emit: emit, jitter: cfg.Jitter,
		sizes: newBatchSizes(cfg), store: retry.Outage{Log: log, Up: "telemetry: the event store answers again",
			Down: "telemetry: the event store does not answer; nothing is delivered to Axiom until it does"}}
	if s.jitter == nil {
		s.jitter = rand.Float64
	}
	s.status.target = cfg.Dataset + " at " + cfg.URL
	api, err := resources.Connect(cfg.Token, cfg.OrgID, cfg.URL, c.http)
	if err != nil {
		return nil, err
	}
	s.marks = newAnnotator(api, cfg.Dataset, log)
	return s, nil
}

// Start begins to deliver, in the background, until Close. It does not end with ctx, so that what is emitted while a
// process winds up is delivered, too.
func (s *Shipper) Start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		var marking sync.WaitGroup
		marking.Go(func() { s.marks.run(ctx) })
		s.run(ctx)
		marking.Wait()
	}()
}

// Close delivers what is kept, for a bounded time and only if Axiom takes it, and gives the lease back. What remains
// lies in the store for the next server.
func (s *Shipper) Close() {
	if s.cancel != nil {
		s.cancel()
		<-s.ended
	}
}

// run takes the lease whenever it is free.
func (s *Shipper) run(ctx context.Context) {
	for ctx.Err() == nil {
		fence, mine, err := s.lease(ctx)
		if err == nil && mine {
			s.lead(ctx, fence)
			continue
		}
		_ = retry.Pause(ctx, s.cfg.Lease/5) // the loop sees that ctx is done
	}
}

// lease asks for the lease, and does not wait longer than it would last.
func (s *Shipper) lease(ctx context.Context) (fence int64, mine bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease/2)
	defer cancel()
	return s.events.Lease(ctx, s.owner, s.cfg.Lease)
}

// lead delivers while this server holds the lease.
func (s *Shipper) lead(ctx context.Context, fence int64) {
	leading, lost := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer lost()
	before, err := s.events.SinkStatus(leading)
	if err != nil {
		_ = retry.Pause(leading, redisPause)
		return
	}
	s.status.begin(before, s.owner, time.Now())
	s.save(leading, fence)
	keeping.Go(func() {
		defer lost()
		s.keepLease(leading, fence)
	})
	for leading.Err() == nil {
		s.round(leading, fence)
	}
	if ctx.Err() == nil {
		s.log.Warn("telemetry: another server delivers to Axiom from now on, or Redis does not answer")
		return
	}
	keeping.Wait() // or the lease might be renewed once more after it is given back
	s.windUp(context.WithoutCancel(ctx), fence)
}

// keepLease renews the lease, and saves the status beside it, until the lease is lost or ctx is done.
func (s *Shipper) keepLease(ctx context.Context, fence int64) {
	held := time.Now()
	for retry.Pause(ctx, s.cfg.Lease/5) == nil {
		asked := time.Now()
		now, mine, err := s.lease(ctx)
		switch {
		case err == nil && (!mine || now != fence):
			return
		case err == nil:
			held = asked
		case time.Since(held) > s.cfg.Lease:
			return
		}
		if err == nil {
			s.save(ctx, fence)
		}
	}
}

// save shows the status to the other servers. That it could not be is noticed by its age.
func (s *Shipper) save(ctx context.Context, fence int64) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease/2)
	defer cancel()
	_ = s.events.SaveSinkStatus(ctx, fence, s.status.now(time.Now()))
}

// windUp delivers what is left when the process stops, if Axiom takes it.
func (s *Shipper) windUp(ctx context.Context, fence int64) {
	final, cancel := context.WithTimeout(ctx, 2*closeGrace)
	defer cancel()
	for end := time.Now().Add(closeGrace); s.status.healthy() && time.Now().Before(end); {
		if batch, err := s.gather(final); err != nil || len(batch.rows) == 0 || !s.deliver(final, fence, batch) {
			break
		}
	}
	s.status.stopped(time.Now())
	s.save(final, fence)
	_ = s.events.Release(final, s.owner) // it lapses by itself, too
}

// round delivers one batch, or waits for one.
func (s *Shipper) round(ctx context.Context, fence int64) {
	batch, err := s.gather(ctx)
	s.storeAnswered(ctx, err)
	switch {
	case err != nil:
		_ = retry.Pause(ctx, redisPause)
	case len(batch.rows) == 0:
		_ = retry.Pause(ctx, s.cfg.Poll)
	case s.deliver(ctx, fence, batch) && !batch.more:
		_ = retry.Pause(ctx, s.cfg.Poll)
	}
}

// deliver sends a batch until Axiom has accounted for each of its events, and acknowledges it; false when it was left
// where it is: the time is over, another server took over, or nothing passes.
func (s *Shipper) deliver(ctx context.Context, fence int64, b batch) bool {
	d := newDelivery(b.rows, s.rounds)
	for p := d.next(); p != nil; p = d.next() {
		a := s.send(ctx, d.lines(p))
		s.status.request()
		if a.failure != nil && ctx.Err() != nil {
			return false // the interruption says nothing about Axiom
		}
		r := d.answered(a, time.Now(), s.jitter())
		if r.act == again || r.act == park {
			s.report(ctx, fence, r)
			if retry.Pause(ctx, r.pause) != nil {
				return false
			}
			if r.act == park && !d.passed {
				s.rounds++
				return false
			}
		}
	}
	s.sizes.learn(d)
	s.rounds = 0
	return s.account(ctx, fence, b, d)
}

// logRefused says that events were refused, at most once in a while, however many batches have some.
func (s *Shipper) logRefused(events int, reason string, now time.Time) {
	s.unsaid += events
	if s.unsaid == 0 || now.Sub(s.saidAt) < refusedEvery {
		return
	}
	s.log.Warn("telemetry: Axiom refused events; see: millrace axiom dead-letters", "events", s.unsaid,
		"one_reason", reason)
	s.unsaid, s.saidAt = 0, now
}

// send lets a pending request end, within a bounded time, when the process is told to stop, so that its events need not
// be sent again.
func (s *Shipper) send(ctx context.Context, lines [][]byte) answer {
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if retry.Pause(bounded, closeGrace) == nil {
			cancel()
		}
	})()
	return s.client.send(bounded, lines)
}

// account keeps what was refused, and moves the cursor behind the batch.
func (s *Shipper) account(ctx context.Context, fence int64, b batch, d *batchDelivery) bool {
	refused := d.refusals()
	for i, reason := range refused {
		if !s.keep(ctx, fence, func(ctx context.Context) error {
			return s.events.DeadLetter(ctx, b.rows[i].record, reason)
		}) {
			return false
		}
	}
	for _, p := range b.portions {
		if !s.keep(ctx, fence, func(ctx context.Context) error { return s.events.Acknowledge(ctx, fence, p) }) {
			return false
		}
	}
	reason := ""
	for _, reason = range refused {
		break
	}
	s.logRefused(len(refused), reason, time.Now())
	s.status.delivered(len(refused) < len(b.rows), reason, time.Now())
	s.report(ctx, fence, reaction{state: telemetry.SinkOK})
	s.marks.delivered(b.rows, refused)
	return true
}

// keep writes to the store, for as long as it takes. false: another server took over, or ctx is done and the store did
// not answer at once. What Axiom has taken is recorded even while the process stops.
func (s *Shipper) keep(ctx context.Context, fence int64, write func(context.Context) error) bool {
	for {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease/2)
		err := write(bounded)
		cancel()
		pause := redisPause
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil || errors.Is(err, delivery.ErrFenced):
			return false
		case errors.Is(err, delivery.ErrDeadLettersFull):
			s.report(ctx, fence, fullDeadLetters)
			pause = fullDeadLetters.pause
		default:
			s.storeAnswered(ctx, err)
		}
		_ = retry.Pause(ctx, pause)
	}
}

// storeAnswered logs when the store does not answer any more, and when it does again.
func (s *Shipper) storeAnswered(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.store.Note(time.Now(), err)
	}
}

// fullDeadLetters is why nothing goes on when no more refused events can be kept.
var fullDeadLetters = reaction{park, 10 * time.Second, telemetry.SinkParked,
	"Axiom refuses events, and as many are kept as may be",
	"see why: millrace axiom dead-letters; replay them when the cause is gone, or drop them"}
