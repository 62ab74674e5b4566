package turncost

import "github.com/millrace/millrace/internal/kit/processortime"

// Result is what turns have cost.
type Result struct {
	Config Config `json:"-"`
	processortime.Machine
	RedisVersion string             `json:"redis_version"`                     // empty: embedded, not measured
	Idle         map[string]float64 `json:"idle_ms_per_s"`                     // of each process while there is nothing to do
	Waiting      map[string]float64 `json:"waiting_claims_ms_per_s,omitempty"` // the same while claims wait
	Rows         []Row              `json:"rows"`
}

// Row is games of one length.
type Row struct {
	Phases  int     `json:"phases"`
	Games   int     `json:"games"`
	Turns   int     `json:"turns"`
	WallSec float64 `json:"wall_s"`
	// Processor time of each process from the start of the run until its last group was ready.
	CPUSec map[string]float64 `json:"cpu_s"`
	TurnUs map[string]float64 `json:"us_per_turn"`
	GameMs map[string]float64 `json:"ms_per_game"`
	Parts  []Part             `json:"worker_parts"`
	// Redis's own counters.
	CommandsPerTurn float64 `json:"redis_commands_per_turn"`
	InPerTurn       float64 `json:"redis_input_bytes_per_turn"`
	OutPerTurn      float64 `json:"redis_output_bytes_per_turn"`
	Peak            float64 `json:"redis_memory_peak_bytes"` // beyond what it had before
	Kept            float64 `json:"redis_memory_kept_bytes"` // when all groups were ready
}

// fill works out the figures.
func (r *Row) fill(before, now counters, samples []sample) {
	turns := float64(r.Turns)
	r.CPUSec, r.TurnUs, r.GameMs = since(before.cpu, now.cpu), map[string]float64{}, map[string]float64{}
	for name, sec := range r.CPUSec {
		r.TurnUs[name] = sec * 1e6 / turns
		r.GameMs[name] = sec * 1e3 / float64(r.Games)
	}
	told := since(before.redis, now.redis)
	r.CommandsPerTurn = told["total_commands_processed"] / turns
	r.InPerTurn, r.OutPerTurn = told["total_net_input_bytes"]/turns, told["total_net_output_bytes"]/turns
	r.Kept = told["used_memory"]
	r.Parts = divide(samples)
	for i := range r.Parts {
		p := &r.Parts[i]
		p.TurnUs = p.Share * r.TurnUs[Worker]
		for kind, sec := range p.Kinds {
			p.Kinds[kind] = p.TurnUs * sec / p.Sec
		}
	}
}
