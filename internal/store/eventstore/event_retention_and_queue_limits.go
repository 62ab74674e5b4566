package store

// Limits bounds what a Store holds; zero fields take the defaults named.
type Limits struct {
	Queue  int   // facts waiting in memory, and half as many samples; 8192
	Recent int64 // events of any kind kept per run; 10,000
	// Kinds is how many facts of a kind are kept per run; the empty kind is every kind without an entry.
	Kinds map[string]KindLimit
}

// KindLimit is how many facts of one kind a run keeps: so many for readers, and, while the sink has not got them, up to
// the other bound.
type KindLimit struct{ Kept, Unshipped int64 }

// defaultKinds keeps what tells why steps took long for some ten thousand steps, and games, of which there are
// hundreds in a step, for the latest. What the sink has not got yet is kept for ten hours of a run that makes a step
// of 64 groups of 8 games in 5 s. docs/telemetry.md says what that takes in bytes.
var defaultKinds = map[string]KindLimit{
	"":                 {20_000, 200_000},
	"rollout_complete": {20_000, 4_000_000},
	"rollout_error":    {20_000, 1_000_000},
	"group_ready":      {10_000, 500_000},
	"group_dropped":    {50_000, 500_000},
	"adapter_loaded":   {50_000, 500_000},
	"token_rates":      {20_000, 1_000_000},
	"training_step":    {500, 10_000},
}

func (l Limits) withDefaults() Limits {
	if l.Queue <= 0 {
		l.Queue = 8192
	}
	if l.Recent <= 0 {
		l.Recent = 10_000
	}
	if l.Kinds == nil {
		l.Kinds = defaultKinds
	}
	return l
}

// Of is the bounds of a kind.
func (l Limits) Of(kind string) KindLimit {
	if own, ok := l.Kinds[kind]; ok {
		return own
	}
	return l.Kinds[""]
}
