package otel

import (
	"log/slog"
	"sync"
	"time"
)

// exportFaults logs what goes wrong with exports: a fault when it begins, and then once in a while, not with each
// export, of which there is one every few seconds for as long as a collector is down.
type exportFaults struct {
	log *slog.Logger

	mu     sync.Mutex
	unsaid int
	saidAt time.Time
}

// faultsEvery is how often faults that go on are logged.
const faultsEvery = 10 * time.Minute

// Handle hears of a fault.
func (f *exportFaults) Handle(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsaid++
	if !f.saidAt.IsZero() && time.Since(f.saidAt) < faultsEvery {
		return
	}
	f.log.Warn("OpenTelemetry is not exported; said again every 10 minutes while it goes on", "error", err,
		"times", f.unsaid)
	f.unsaid, f.saidAt = 0, time.Now()
}
