package memorycost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

const (
	run       = rollout.RunName("memory")
	warmRun   = rollout.RunName("warm")
	lookEvery = 250 * time.Millisecond
	peakEvery = 20 * time.Millisecond
	untilHeld = 10 * time.Minute // until so many games have come to a phase
	untilCalm = 2 * time.Second  // after the last request was held
)

// measured is the running service.
type measured struct {
	*benchservice.Service
	cfg   Config
	hold  *benchservice.Hold
	games int
}

// Measure looks at a service of its own for each number of games and claims.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	res := Result{Config: cfg, Machine: processortime.ThisMachine()}
	for i := range cfg.Games {
		row, err := measureRow(ctx, cfg, i)
		if err != nil {
			return Result{}, fmt.Errorf("%d games: %w", cfg.Games[i], err)
		}
		if res.RedisVersion == "" {
			res.RedisVersion = row.redisVersion
		}
		res.Rows = append(res.Rows, row)
	}
	res.Slopes = slopesOf(res.Rows)
	res.LoadAfter = processortime.Load()
	return res, nil
}

func measureRow(ctx context.Context, cfg Config, i int) (Row, error) {
	m := &measured{cfg: cfg, hold: benchservice.NewHold(), games: cfg.Games[i]}
	row := Row{Games: cfg.Games[i], Claims: cfg.Claims[i]}
	cfg.say("starting Redis, Temporal, a server and a worker in %s", cfg.Dir)
	var err error
	m.Service, err = benchservice.Start(ctx, benchservice.Config{Programs: cfg.Programs,
		Dir: fmt.Sprintf("%s/%d-games", cfg.Dir, m.games), Games: m.games, Claims: row.Claims,
		Limit: (benchservice.Powers*m.games + benchservice.Engines - 1) / benchservice.Engines, Hold: m.hold})
	if err != nil {
		return row, err
	}
	defer m.Stop()
	if row.redisVersion, err = m.RedisInfo(ctx, "redis_version"); err != nil {
		return row, err
	}
	if err := m.warmUp(ctx); err != nil {
		return row, fmt.Errorf("warm up: %w", err)
	}
	if err := m.claims(ctx, &row); err != nil {
		return row, fmt.Errorf("claims that wait: %w", err)
	}
	return row, m.play(ctx, &row)
}

// warmUp has a group of games played, so that what a process needs once is there.
func (m *measured) warmUp(ctx context.Context) error {
	m.hold.Release()
	if err := m.API.StartRun(ctx, m.Spec(warmRun, benchservice.PhasesPerYear, 1, m.cfg.Samples)); err != nil {
		return err
	}
	if err := m.ready(ctx, warmRun, 1); err != nil {
		return err
	}
	return m.StopRun(ctx, warmRun)
}

// ready waits until a run's groups are.
func (m *measured) ready(ctx context.Context, name rollout.RunName, groups int64) error {
	return m.await(ctx, func() (bool, error) {
		counts, err := m.Buffer.Counts(ctx, name)
		if rollout.Refused(err, rollout.NoSuchRun) {
			return false, nil
		}
		if err == nil && counts.Dropped > 0 {
			err = fmt.Errorf("run %s: %d groups were dropped; the logs are in %s", name, counts.Dropped, m.cfg.Dir)
		}
		return counts.Ready >= groups, err
	})
}

// await asks done again and again.
func (m *measured) await(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, untilHeld)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// claims measures the server while claims wait.
func (m *measured) claims(ctx context.Context, row *Row) error {
	pid := m.PID("server")
	before, err := processMemory(ctx, pid, m.ServerProfiles)
	if err != nil {
		return err
	}
	m.cfg.say("%d claims wait", row.Claims)
	return m.Waiting(ctx, row.Claims, func(ctx context.Context) error {
		now, err := processMemory(ctx, pid, m.ServerProfiles)
		row.Server = now.minus(before)
		return err
	})
}

// play has the games played, and looks at worker and Redis in the first phase, in the last, while groups are committed,
// when all are ready and when their batch is claimed.
func (m *measured) play(ctx context.Context, row *Row) error {
	before, err := m.look(ctx)
	if err != nil {
		return err
	}
	m.hold.Phase(0)
	groups := m.games / m.cfg.Samples
	m.cfg.say("%d games are begun", m.games)
	if err := m.API.StartRun(ctx, m.Spec(run, m.cfg.Phases, groups, m.cfg.Samples)); err != nil {
		return err
	}
	if row.First, err = m.held(ctx, before); err != nil {
		return err
	}
	m.cfg.say("they are played up to their last phase")
	m.hold.Phase(m.cfg.Phases - 1)
	if row.Last, err = m.held(ctx, before); err != nil {
		return err
	}
	m.cfg.say("they end")
	stop := m.watchPeak(ctx)
	m.hold.Release()
	err = m.ready(ctx, run, int64(groups))
	peak, failed := stop()
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("until all groups are ready: %w", err)
	}
	row.Peak = peak - before.Redis.Used
	if row.Ready, err = m.since(ctx, before); err != nil {
		return err
	}
	if err := m.count(ctx, row); err != nil {
		return fmt.Errorf("claim the batch: %w", err)
	}
	row.Claimed, err = m.since(ctx, before)
	return err
}

// held waits until every game waits for all its answers, and looks.
func (m *measured) held(ctx context.Context, before Look) (Look, error) {
	want := benchservice.Powers * m.games
	err := m.await(ctx, func() (bool, error) { return m.hold.Held() >= want, nil })
	if err != nil {
		return Look{}, fmt.Errorf("%d of %d requests are held: %w", m.hold.Held(), want, err)
	}
	select { // what the last answers have set going comes to rest
	case <-ctx.Done():
		return Look{}, ctx.Err()
	case <-time.After(untilCalm):
	}
	return m.since(ctx, before)
}

// Look is worker and Redis at one moment.
type Look struct {
	Worker Process `json:"worker"`
	Redis  Store   `json:"redis"`
}

func (m *measured) look(ctx context.Context) (l Look, err error) {
	if l.Worker, err = processMemory(ctx, m.PID("worker-0"), m.WorkerProfiles); err != nil {
		return l, err
	}
	l.Redis, err = redisMemory(ctx, m.Service)
	return l, err
}

func (m *measured) since(ctx context.Context, before Look) (Look, error) {
	now, err := m.look(ctx)
	return Look{now.Worker.minus(before.Worker), now.Redis.minus(before.Redis)}, err
}

// watchPeak looks at the memory of Redis until what it returns is called, which answers the most.
func (m *measured) watchPeak(ctx context.Context) (stop func() (used int64, err error)) {
	enough, done := make(chan struct{}), make(chan struct{})
	var most int64
	var failed error
	go func() {
		defer close(done)
		ticker := time.NewTicker(peakEvery)
		defer ticker.Stop()
		for failed == nil {
			used, err := m.RedisNumber(ctx, "used_memory")
			most, failed = max(most, int64(used)), err
			select {
			case <-enough:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() (int64, error) {
		close(enough)
		<-done
		return most, failed
	}
}

// count claims the batch as a trainer does, and counts its tokens.
func (m *measured) count(ctx context.Context, row *Row) error {
	generation, _, err := m.Buffer.Attach(ctx, run, nil)
	if err != nil {
		return err
	}
	batch, err := m.Buffer.ClaimRaw(ctx, run, 0, generation, buffer.Share{})
	if err != nil {
		return err
	}
	for group, err := range batch.All() {
		if err != nil {
			return err
		}
		for _, t := range group.Trajectories {
			row.Trajectories++
			for _, turn := range t.Turns {
				row.Turns++
				row.PromptTokens += int64(len(turn.PromptTokenIDs))
				row.CompletionTokens += int64(len(turn.TokenIDs))
			}
		}
	}
	return nil
}
