package gameslots

// What a worker's memory goes to, measured by `millrace bench memory`: a Diplomacy game with all seven requests at
// engines has 0.6 MB resident in its first phase, and 4.5 kB more for each turn that is played, which makes 1 MB in the
// thirteenth phase.
const (
	gameBytes   = 1 << 20
	workerBytes = 160 << 20 // a worker without games, with its caches
)

// A slot may be lent while its own game is played (see Pool), so that it stands for two games.
const slotBytes = 2 * gameBytes

// Bounds of a worker's default number of slots. A run of 64 groups of 8 games per step and a depth of 2 wants 1,024.
// More than mostUnasked must be configured, by people who know how much memory their games take.
const (
	fewestUnasked = 16
	mostUnasked   = 2048
)

// Fitting is how many slots fit into so much memory: into three quarters of what the worker has for itself, or half of
// what it shares with others. The rest is for what garbage collection leaves for later, and for larger games.
func Fitting(memory int64, shared bool) int {
	share := memory / 4 * 3
	if shared {
		share = memory / 2
	}
	return int(min(max((share-workerBytes)/slotBytes, fewestUnasked), mostUnasked))
}
