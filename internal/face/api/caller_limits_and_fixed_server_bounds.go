package api

import (
	"time"
)

// Limits bounds what callers may have. Each is a key of the same name under limits in the
// service configuration, which a refusal names.
type Limits struct {
	Runs          int // that go on at a time, in the deployment
	GamesPerRun   int // that a run may have outstanding: depth x groups_per_step x (samples + oversample)
	Requests      int // in progress at a time, in this server; claims that wait and streams are not among them
	WaitingClaims int // at a time, in this server
	Streams       int // of events, at a time, in this server
	Connections   int // open at a time, in this server; the process's limit of open files lowers it

	ConnectionsPerAddress int // open at a time without having shown a token
	StepMetricsBytes      int // of the metrics of one step record, as JSON
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
