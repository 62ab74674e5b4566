package crashtest

import (
	"fmt"
	"slices"
	"time"
)

// boughtProcess is one process of an engine that was bought, as the host shows it.
type boughtProcess struct {
	pid   int
	began string // when, in the host's ticks: with the pid it is one process for all times
	id    string // of the engine
	port  int    // 0: it is the engine's keeper
}

// same reports whether two are one process.
func (p boughtProcess) same(q boughtProcess) bool { return p.pid == q.pid && p.began == q.began }

// boughtLedger is the account of the processes that ran of engines that were bought, look by look.
type boughtLedger struct {
	engines    map[string][]boughtProcess // by id; more than one goes against a promise
	at         time.Time                  // of the newest look
	ran        int                        // at that time
	seconds    float64                    // of all engines together
	most       int                        // at once
	violations []string
}

// look enters what runs at a time: no engine id may ever have two processes.
func (l *boughtLedger) look(at time.Time, now []boughtProcess) {
	if l.engines == nil {
		l.engines = map[string][]boughtProcess{}
	}
	if !l.at.IsZero() {
		l.seconds += at.Sub(l.at).Seconds() * float64(l.ran)
	}
	l.at, l.ran = at, len(now)
	l.most = max(l.most, l.ran)
	for _, p := range now {
		known := l.engines[p.id]
		if slices.ContainsFunc(known, p.same) {
			continue
		}
		if len(known) > 0 {
			l.violations = append(l.violations, fmt.Sprintf("engine %s was bought twice: it has process %d (port %d), and "+
				"process %d (port %d)", p.id, known[0].pid, known[0].port, p.pid, p.port))
		}
		l.engines[p.id] = append(known, p)
	}
}
