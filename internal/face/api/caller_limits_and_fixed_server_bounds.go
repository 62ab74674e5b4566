package api

import (
	"time"
)

// Limits bounds what callers may have. Each is a key under limits in the service configuration, which a refusal names.
// What is at a time is so in one server, except runs.
type Limits struct {
	Runs int `json:"runs"` // that go on at a time, in the deployment
	// GamesPerRun is how many a run may have outstanding: depth x groups_per_step x (samples + oversample).
	GamesPerRun   int `json:"games_per_run"`
	Requests      int `json:"requests"`       // in progress at a time; claims that wait and streams are not among them
	WaitingClaims int `json:"waiting_claims"` // at a time
	Streams       int `json:"streams"`        // of events, at a time
	Connections   int `json:"connections"`    // open at a time; the process's limit of open files lowers it

	ConnectionsPerAddress int `json:"connections_per_address"` // open at a time without having shown a token
	StepMetricsBytes      int `json:"step_metrics_bytes"`      // of the metrics of one step record, as JSON
}

// Bounds that no deployment needs to change.
const (
	maxStepMetrics = 500             // figures in one step record
	maxMetricName  = 200             // bytes of a figure's name
	answerBytes    = 16 << 20        // about the most in one page of a list
	patience       = 5 * time.Second // how long a request waits to be let in
	batchPatience  = 30 * time.Second

	// In one server, at a time:
	changesAtOnce   = 16  // changes of runs and of the fleet
	startsAtOnce    = 4   // starts of runs: each counts those that there are before
	publishesAtOnce = 256 // publications: each lasts as long as engines load
	publishesPerRun = 8
	listsAtOnce     = 4  // lists of step records
	diagnosesAtOnce = 64 // calls that wait for a diagnosis
	analysesAtOnce  = 2  // diagnoses being made
	batchesAtOnce   = 64 // batches being read and delivered
	readingsAtOnce  = 4  // batches being read by others than trainers
)
