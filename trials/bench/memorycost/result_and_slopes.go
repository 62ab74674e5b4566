package memorycost

import "github.com/millrace/millrace/internal/kit/processortime"

// Result is what was found.
type Result struct {
	Config Config `json:"-"`
	processortime.Machine
	RedisVersion string `json:"redis_version"`
	Rows         []Row  `json:"rows"`
	Slopes       Slopes `json:"slopes"`
}

// Row is one service with so many games in play, and, before that, so many claims that waited. All memory is beyond
// what there was after one group had been played.
type Row struct {
	Games  int     `json:"games"`
	Claims int     `json:"claims"`
	Server Process `json:"server"` // while claims waited

	First   Look  `json:"first_phase"` // all games are in it, and all their requests at the engines
	Last    Look  `json:"last_phase"`
	Ready   Look  `json:"ready"`   // all groups are
	Claimed Look  `json:"claimed"` // as one batch
	Peak    int64 `json:"redis_peak_bytes"`

	// Of the batch.
	Trajectories     int64 `json:"trajectories"`
	Turns            int64 `json:"turns"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`

	redisVersion string
}

func (r *Row) tokens() int64 { return r.PromptTokens + r.CompletionTokens }

// slope is what one more of them takes, by the rows with the fewest and the most.
func slope(rows []Row, n func(*Row) int, of func(*Row) int64) float64 {
	a, b := &rows[0], &rows[len(rows)-1]
	return float64(of(b)-of(a)) / float64(n(b)-n(a))
}

// Slopes are the figures that goals are set for.
type Slopes struct {
	WorkerHeapFirst     float64 `json:"worker_bytes_per_game_first_phase"` // heap and stacks
	WorkerHeapLast      float64 `json:"worker_bytes_per_game_last_phase"`
	WorkerResidentFirst float64 `json:"worker_resident_bytes_per_game_first_phase"`
	WorkerResidentLast  float64 `json:"worker_resident_bytes_per_game_last_phase"`
	ServerHeap          float64 `json:"server_bytes_per_waiting_claim"`
	ServerResident      float64 `json:"server_resident_bytes_per_waiting_claim"`
	RedisReady          float64 `json:"redis_bytes_per_token_ready"`
	RedisClaimed        float64 `json:"redis_bytes_per_token_claimed"`
	RedisLast           float64 `json:"redis_bytes_per_token_last_phase"`
	RedisPeak           float64 `json:"redis_bytes_per_token_peak"`
}

// What a slope may be over.
func games(r *Row) int { return r.Games }

func claims(r *Row) int { return r.Claims }

func tokens(r *Row) int { return int(r.tokens()) }

func slopesOf(rows []Row) Slopes {
	return Slopes{
		WorkerHeapFirst:     slope(rows, games, func(r *Row) int64 { return r.First.Worker.live() }),
		WorkerHeapLast:      slope(rows, games, func(r *Row) int64 { return r.Last.Worker.live() }),
		WorkerResidentFirst: slope(rows, games, func(r *Row) int64 { return r.First.Worker.Resident }),
		WorkerResidentLast:  slope(rows, games, func(r *Row) int64 { return r.Last.Worker.Resident }),
		ServerHeap:          slope(rows, claims, func(r *Row) int64 { return r.Server.live() }),
		ServerResident:      slope(rows, claims, func(r *Row) int64 { return r.Server.Resident }),
		RedisReady:          slope(rows, tokens, func(r *Row) int64 { return r.Ready.Redis.Used }),
		RedisClaimed:        slope(rows, tokens, func(r *Row) int64 { return r.Claimed.Redis.Used }),
		RedisLast:           slope(rows, tokens, func(r *Row) int64 { return r.Last.Redis.Used }),
		RedisPeak:           slope(rows, tokens, func(r *Row) int64 { return r.Peak }),
	}
}

// live is what a process cannot do without.
func (p Process) live() int64 { return p.Heap + p.Stacks }
