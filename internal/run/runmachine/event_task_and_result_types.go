package runmachine

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Event is what happened.
//
//sumtype:decl
type Event interface{ event() }

// Began is the first event of an execution.
type Began struct {
	New     bool // the run's first execution
	Resumed bool // the first one after its workflow was lost
}

// GroupEnded says that a group is ready, or was dropped with a code.
type GroupEnded struct {
	Seq          rollout.GroupSeq
	Code         rollout.Code // empty: it is ready
	ZeroVariance bool         // all its rewards are equal
	// Score is the share of its games in which the learner ended before the opponent that the league drew; nil: not known.
	Score *float64
}

// GroupClosed reports that the workflow of a group that this execution launched is over.
type GroupClosed struct {
	Seq     rollout.GroupSeq
	Foreign bool // it was not this execution's: an earlier one had launched it already
}

// BufferChanged hints that a batch was claimed or a step completed, and says how far the account has come; the zero
// Mark says nothing.
type BufferChanged struct{ Mark runstatus.Mark }

// Changed is an operator's change, checked already. ID is the caller's, and not used twice.
type Changed struct {
	ID     string
	Spec   runspec.Spec // after it
	Paused *bool        // nil: as it is
	Text   string       // the change as an operator would write it
}

// StopAsked ends the run.
type StopAsked struct{ Reason string }

// PublishAsked is a trainer's wish that a version serves the weights at a path. ID is the caller's, and not used twice.
type PublishAsked struct {
	ID      string
	Version rollout.PolicyVersion
	Path    string
	// Generation of the trainer process that asks; 0: of none.
	Generation rollout.TrainerGeneration
}

// Answered is the result of a command.
type Answered struct {
	ID     CommandID
	Result Result
}

// Interrupted answers a command that the workflow's cancellation has ended.
type Interrupted struct{ ID CommandID }

func (Began) event()         {}
func (GroupEnded) event()    {}
func (GroupClosed) event()   {}
func (BufferChanged) event() {}
func (Changed) event()       {}
func (StopAsked) event()     {}
func (PublishAsked) event()  {}
func (Answered) event()      {}
func (Interrupted) event()   {}

// CommandID tells the commands of one execution apart.
type CommandID int

// Command is a task that must be performed and answered.
type Command struct {
	ID   CommandID
	Task Task
}

// Task is an action to take. Unless it says otherwise it is answered with Done.
//
//sumtype:decl
type Task interface{ task() }

// OpenRun makes the run known to the buffer. When it fails nothing follows.
type OpenRun struct{}

// Pin brings a fixed policy on the engines, unless the run is over. It is answered with Pinned.
type Pin struct{ Policy runspec.FixedPolicy }

// AnnounceResumed tells the service that a run which was lost is active again. When it fails nothing follows.
type AnnounceResumed struct {
	Status runstatus.RunStatus
	Key    string // of the event
}

// ReadAccount asks the buffer for its account, with the batches of the steps from one on, and for what readers were
// told, where that has a higher number than the run has given. It is answered with AccountRead.
type ReadAccount struct {
	Since   rollout.Step
	Mirrors int64
}

// ConfirmBuffer says that the buffer's account, as it was read under a replication id of Redis, is not behind the
// run's. It fails when Redis was replaced since.
type ConfirmBuffer struct {
	Era           int64
	ReplicationID string
}

// RepairBuffer has nothing undone in a buffer that came back older, or empty. It is answered with Repaired.
type RepairBuffer struct {
	Status    runstatus.RunStatus
	Era       int64 // that the account has from then on
	Mark      runstatus.Mark
	NextGroup rollout.GroupSeq
	Playing   []rollout.GroupSeq
	Ready     []rollout.GroupSeq
	Key       string // of the event
	Mirror    int64  // number of the status, as for Mirror
}

// AssertAdapters tells a fleet that may have forgotten it which versions and fixed policies the run needs, and which it
// has retired.
type AssertAdapters struct{ Status runstatus.RunStatus }

// Release takes groups out of the buffer's account. It is answered with Released.
type Release struct {
	Seqs       []rollout.GroupSeq
	Code       rollout.Code
	OnlyQueued bool // only groups without a dispatched request
}

// CancelGames cancels the games of groups; those that are over hear nothing.
type CancelGames struct{ Seqs []rollout.GroupSeq }

// LookFor asks which of these groups have no workflow. It is answered with Looked.
type LookFor struct{ Seqs []rollout.GroupSeq }

// DropVanished takes a group without a workflow out of the buffer's account. It fails when the group was committed.
type DropVanished struct{ Seq rollout.GroupSeq }

// Launch starts groups, each with the policy version it is stamped with.
type Launch struct{ Groups []Group }

// Retire lets engines unload an adapter.
type Retire struct{ Adapter string }

// Mirror gives readers the run's status.
type Mirror struct {
	Status          runstatus.RunStatus
	Number          int64  // above those of all before
	Change          string // what has changed; reported as an event unless it is empty
	Key             string // of that event
	VarianceChanged bool   // which is an event of its own
}

// Wait waits until Machine.Awake, for no longer than For. It is answered with Woken.
type Wait struct{ For time.Duration }

// Inspect judges an adapter by its files and the engines, unless the buffer knows of a newer version than the newest
// that the run does. It is answered with Inspected.
type Inspect struct {
	Adapter Adapter
	Newest  rollout.PolicyVersion
}

// Load brings an adapter on the engines, and keeps trying for a while when no engine can take it now. It is answered
// with Loaded.
type Load struct{ Adapter Adapter }

// StopLoading ends the loads of a version that is being published.
type StopLoading struct{ Version rollout.PolicyVersion }

// Unload takes an adapter that is not to be used from the engines: those that its publication has asked to load it, or
// all of them.
type Unload struct {
	Adapter    string
	Everywhere bool
}

// Switch has new games use an adapter, unless the trainer process that published it was replaced. It fails as a
// publication does.
type Switch struct {
	Adapter    Adapter
	Generation rollout.TrainerGeneration
}

// ReportPolicy reports a publication's outcome to readers.
type ReportPolicy struct{ Policy runstatus.Policy }

// Await waits until the command is no longer Blocked.
type Await struct{}

// AnswerPublication is the answer to the publication's caller: the version, or why not. Nothing follows.
type AnswerPublication struct {
	Policy runstatus.Policy
	Err    error // a *rollout.Refusal
}

func (OpenRun) task()           {}
func (Pin) task()               {}
func (AnnounceResumed) task()   {}
func (ReadAccount) task()       {}
func (ConfirmBuffer) task()     {}
func (RepairBuffer) task()      {}
func (AssertAdapters) task()    {}
func (Release) task()           {}
func (CancelGames) task()       {}
func (LookFor) task()           {}
func (DropVanished) task()      {}
func (Launch) task()            {}
func (Retire) task()            {}
func (Mirror) task()            {}
func (Wait) task()              {}
func (Inspect) task()           {}
func (Load) task()              {}
func (StopLoading) task()       {}
func (Unload) task()            {}
func (Switch) task()            {}
func (ReportPolicy) task()      {}
func (Await) task()             {}
func (AnswerPublication) task() {}

// Result is the result of a task.
//
//sumtype:decl
type Result interface{ result() }

// Done is all that is to be said of most tasks.
type Done struct{ Failed bool }

// Pinned answers Pin.
type Pinned struct {
	Refused string // why engines will never take it
	Failed  string // why the fleet could not be told of it
}

// AccountRead answers ReadAccount.
type AccountRead struct {
	Account   Account
	Forgotten bool // the buffer does not know the run
	Failed    bool // it does not answer
}

// Repaired answers RepairBuffer.
type Repaired struct {
	Account  Account
	Rollback runstatus.Rollback
	Failed   bool
}

// Released answers Release: those that were let go of. Others have moved on to where they cannot be.
type Released struct {
	Seqs   []rollout.GroupSeq
	Failed bool
}

// Looked answers LookFor.
type Looked struct {
	Gone   []rollout.GroupSeq
	Failed bool
}

// Woken answers Wait.
type Woken struct{ TimedOut bool }

// Inspected answers Inspect.
type Inspected struct {
	Ahead  rollout.PolicyVersion // the buffer's version, where it is newer than Newest: nothing was judged then
	Digest string
	Notes  []string
	Fault  *Fault
}

// Loaded answers Load.
type Loaded struct {
	Digest  string // found meanwhile, unless the adapter was inspected before
	Seconds map[rollout.EngineID]float64
	Notes   []string
	Fault   *Fault
}

// Switched answers Switch.
type Switched struct{ Fault *Fault }

// Fault is why a publication failed: an outage is Unavailable and passes, a Conflict is about weights that are in use
// under the same name or path, a replaced trainer is Fenced, and anything else is Invalid, the adapter's fault.
type Fault struct {
	Code rollout.RefusalCode
	Text string
}

func (Done) result()        {}
func (Pinned) result()      {}
func (AccountRead) result() {}
func (Repaired) result()    {}
func (Released) result()    {}
func (Looked) result()      {}
func (Woken) result()       {}
func (Inspected) result()   {}
func (Loaded) result()      {}
func (Switched) result()    {}
