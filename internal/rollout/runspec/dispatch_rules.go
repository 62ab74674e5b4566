package runspec

// Dispatch says how a run's requests are spread over the engines, and in what order. The zero value of a field is its
// default.
type Dispatch struct {
	Policy               DispatchPolicy `json:"policy"`
	MaxInFlightPerEngine int            `json:"max_in_flight_per_engine,omitempty"` // 0: the engine's own limit

	// AffinitySlack is how many requests' worth of work more than the least loaded engine the one that holds a
	// game's prefix or adapter may have and still be preferred. 0: the dispatcher's default; negative: no affinity
	// of games.
	AffinitySlack int `json:"affinity_slack,omitempty"`
	// GroupPerEngine is how many episodes of a group start on one engine, to share the group's prefix, before the
	// next engine takes over. 0: a group's episodes start wherever there is least to do.
	GroupPerEngine int `json:"group_per_engine,omitempty"`
	// AdapterSlots is how many adapters an engine can have in its batch (vLLM: --max-loras). When more are in use, each
	// keeps to its own engines. 0: not known, and adapters go everywhere.
	AdapterSlots int `json:"adapter_slots,omitempty"`

	Order DispatchOrder `json:"order,omitempty"`
	// Ageing is for the order shortest_first: how many tokens a request seems shorter for each second that it waits.
	// 0: it never does, and long requests may starve.
	Ageing float64       `json:"ageing,omitempty"`
	Queue  DispatchQueue `json:"queue,omitempty"`

	// Behind sends the run's requests only into capacity that runs without it leave idle, and has no engine bought.
	Behind bool `json:"behind,omitempty"`
}

// DispatchPolicy names a way of choosing an engine.
type DispatchPolicy string

// The dispatch policies.
const (
	LeastTokens DispatchPolicy = "least_tokens" // fewest outstanding tokens, with affinities
	RoundRobin  DispatchPolicy = "round_robin"
)

// DispatchOrder names the order in which a run's requests are served; a request's priority comes before it.
type DispatchOrder string

// The orders; the empty one is OldestGroup.
const (
	OldestGroup   DispatchOrder = "oldest_group" // in a group, the game that is furthest behind
	ArrivalOrder  DispatchOrder = "arrival"
	ShortestFirst DispatchOrder = "shortest_first" // least expected work, with Ageing
)

// DispatchQueue says where requests wait.
type DispatchQueue string

// The queues; the empty one is SharedQueue.
const (
	SharedQueue DispatchQueue = "shared"     // any engine takes the next request
	EngineQueue DispatchQueue = "per_engine" // a request is assigned to an engine when it arrives
)
