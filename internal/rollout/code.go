package rollout

// Codes of groups that are let go though none of their games failed. A group that is given up has the code of its last
// failure instead.
const (
	CodeZeroVariance = "zero_variance" // all rewards are equal, and the run wants no such groups
	CodeShrunk       = "shrunk"        // the run was changed to keep fewer groups outstanding
	CodeStale        = "stale"         // the trainer has moved too far ahead of it
	CodeVanished     = "vanished"      // its workflow is gone
)

// CodeCancelled is the code of groups, games and calls that are not needed any more.
const CodeCancelled = "cancelled"

// Codes of attempts at games that end though nothing failed.
const (
	CodeSuperseded    = "superseded"     // it was silent for too long and taken for dead: another one goes on
	CodeWorkerStopped = "worker_stopped" // its worker was told to end: another one goes on
	CodeUnserved      = "no_engine_serves_model"
)
