package bufferload

import (
	"math"

	"github.com/millrace/millrace/internal/kit/processortime"
)

// Result is what the turns of games have cost Redis.
type Result struct {
	Config Config `json:"-"`
	processortime.Machine
	Rows []Row `json:"rows"`
}

// Row is one kind of Redis.
type Row struct {
	Redis   string  `json:"redis"`
	Version string  `json:"redis_version"`
	Masters int     `json:"masters"`
	Log     string  `json:"log"`
	WallSec float64 `json:"wall_s"`
	Turns   int64   `json:"turns"`
	Games   int64   `json:"games"`
	Groups  int64   `json:"groups"`
	Steps   int64   `json:"steps"`
	// GeneratorSec is the processor time of the load itself, which is in no other figure.
	GeneratorSec float64 `json:"generator_cpu_s"`

	TurnUs      float64 `json:"main_thread_us_per_turn"` // of all nodes, without what they use idle
	WholeTurnUs float64 `json:"us_per_turn"`             // the same with other threads and children: the log
	IdleMs      float64 `json:"idle_ms_per_s"`           // of all nodes, while nothing is played
	Commands    float64 `json:"commands_per_turn"`
	In          float64 `json:"input_bytes_per_turn"`
	Out         float64 `json:"output_bytes_per_turn"`

	Nodes []Node `json:"nodes"`
	// Ceiling is the turns per second at which the first node's core is full, and Engines how many that are.
	Ceiling float64 `json:"ceiling_turns_per_s"`
	Engines float64 `json:"ceiling_engines"`
	// AccountShare is the share of commands' time that is spent on keys of runs' accounts; those of a run share a slot.
	// AccountUs is it per turn, with its part of what commands cost besides. RunCeiling is the turns per second at which
	// that fills a core, however many nodes there are.
	AccountShare float64 `json:"account_share"`
	AccountUs    float64 `json:"account_us_per_turn"`
	RunCeiling   float64 `json:"run_ceiling_turns_per_s"`
	Uses         []Use   `json:"commands"`

	nodes  []counters
	traced int64 // turns while commands were noted
}

// Node is one Redis process.
type Node struct {
	TurnUs float64 `json:"us_per_turn"` // of its main thread, for each turn of all nodes
	Share  float64 `json:"share"`       // of the nodes' main threads
	Memory float64 `json:"memory_bytes"`
}

// fill works out the figures from what the nodes have counted, idle and under load.
func (r *Row) fill(cfg Config, idle []counters) {
	turns := float64(r.Turns)
	if turns == 0 || len(r.nodes) == 0 {
		return
	}
	main, whole, used := 0.0, 0.0, make([]float64, len(r.nodes))
	for i, n := range r.nodes {
		resting := idle[i].MainSec / cfg.Idle.Seconds()
		r.IdleMs += 1000 * resting
		used[i] = max(0, n.MainSec-resting*r.WallSec)
		main, whole = main+used[i], whole+max(0, n.AllSec-idle[i].AllSec/cfg.Idle.Seconds()*r.WallSec)
		r.Commands += n.Commands / turns
		r.In, r.Out = r.In+n.In/turns, r.Out+n.Out/turns
		node := Node{TurnUs: 1e6 * used[i] / turns, Memory: n.Memory}
		r.Nodes = append(r.Nodes, node)
		if used[i] == 0 {
			continue // idle it used more than under load: nothing can be said of when it is full
		}
		if full := (1 - resting) / (node.TurnUs / 1e6); r.Ceiling == 0 || full < r.Ceiling {
			r.Ceiling = full
		}
	}
	for i := range r.Nodes {
		r.Nodes[i].Share = used[i] / max(main, math.SmallestNonzeroFloat64)
	}
	r.TurnUs, r.WholeTurnUs = 1e6*main/turns, 1e6*whole/turns
	r.Engines = r.Ceiling / cfg.perEngine()
	r.fillUses()
}

// fillUses divides what commands took by the turns in which they did.
func (r *Row) fillUses() {
	all, ofAccount := 0.0, 0.0
	for i := range r.Uses {
		u := &r.Uses[i]
		u.TurnUs = 1e6 * u.sum() / float64(max(1, r.traced))
		all += u.sum()
		if u.Keys == account {
			ofAccount += u.sum()
		}
	}
	if all > 0 && ofAccount > 0 {
		r.AccountShare = ofAccount / all
		r.AccountUs = r.AccountShare * r.TurnUs
		r.RunCeiling = 1e6 / r.AccountUs
	}
}
