package buffer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

//go:embed lua/*.lua
var sources embed.FS

// The scripts; each one is an atomic change of one run.
var (
	openScript         = script("open")
	limitsScript       = script("limits")
	versionScript      = script("version")
	statusScript       = script("status")
	restoreScript      = script("restore")
	accountScript      = script("account")
	departuresScript   = script("departures")
	progressScript     = script("progress")
	deleteScript       = script("delete")
	reviveScript       = script("revive")
	unheardScript      = script("unheard")
	forgetScript       = script("forget")
	queueScript        = script("queue")
	startScript        = script("start")
	peekScript         = script("peek")
	commitScript       = script("commit")
	discardScript      = script("discard")
	releaseScript      = script("release")
	beginScript        = script("begin")
	excuseScript       = script("excuse")
	checkpointScript   = script("checkpoint")
	answerScript       = script("answer")
	answersScript      = script("answers")
	episodeScript      = script("episode")
	tryFailedScript    = script("tryfailed")
	trySucceededScript = script("trysucceeded")
	triesScript        = script("tries")
	alarmsScript       = script("alarms")
	attachScript       = script("attach")
	claimScript        = script("claim")
	batchScript        = script("batch")
	whereaboutsScript  = script("whereabouts")
	askedScript        = script("asked")
	completeScript     = script("complete")
)

func script(name string) *redis.Script {
	prelude, err := sources.ReadFile("lua/prelude.lua")
	if err != nil {
		panic(err) // the file is part of the program
	}
	body, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return redis.NewScript(string(prelude) + string(body))
}

// eval runs a script on a run and returns its answer: a code, then what belongs to it. A run that does not
// exist is refused here, for all scripts alike.
func (s *Store) eval(ctx context.Context, sc *redis.Script, run rollout.RunName, args ...any) (reply, error) {
	answer, err := sc.Run(ctx, s.rdb, []string{s.key(run, "run")}, args...).Slice()
	if err != nil {
		return nil, trouble("redis", err)
	}
	r := reply(answer)
	switch r.code() {
	case rollout.NoSuchRun:
		return nil, noSuchRun(run)
	case rollout.Invalid:
		return nil, rollout.Refuse(rollout.Invalid, "the group's number is far beyond every group of run %s; numbers go up one by one", run)
	}
	return r, nil
}

func noSuchRun(run rollout.RunName) error {
	if run.Life() > 1 {
		return rollout.Refuse(rollout.NoSuchRun, "there is no run %q any more: it was deleted; `millrace run list` shows the runs", string(run.Plain()))
	}
	return rollout.Refuse(rollout.NoSuchRun, "there is no run %q; `millrace run list` shows the runs", string(run))
}

// trouble wraps what Redis or the way to it did wrong. When waiting may help, the error is a refusal with
// code Unavailable besides; it is retryable in any case.
func trouble(doing string, err error) error {
	if !transient(err) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	refusal := rollout.Refuse(rollout.Unavailable, "the buffer's Redis does not answer, or cannot write, at the moment; ask again")
	return fmt.Errorf("%s: %w: %w", doing, refusal, err)
}

func transient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) {
		return true
	}
	for _, prefix := range []string{"LOADING", "READONLY", "OOM", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "MISCONF", "NOREPLICAS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// reply is a script's answer. The scripts are part of the program: an answer of another shape is a
// zero value here, and shows in the tests.
type reply []any

func (r reply) code() rollout.RefusalCode { return rollout.RefusalCode(r.str(0)) }

func (r reply) ok() bool { return r.str(0) == "ok" }

func (r reply) str(i int) string {
	if i >= len(r) {
		return ""
	}
	switch v := r[i].(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

func (r reply) int(i int) int64 {
	n, _ := strconv.ParseInt(r.str(i), 10, 64)
	return n
}

func (r reply) list(i int) reply {
	if i >= len(r) {
		return nil
	}
	l, _ := r[i].([]any)
	return l
}

func (r reply) seqs(i int) []rollout.GroupSeq {
	l := r.list(i)
	out := make([]rollout.GroupSeq, len(l))
	for j := range l {
		out[j] = rollout.GroupSeq(l.int(j))
	}
	return out
}

// fields is a hash's fields and values in turn.
func (r reply) fields(i int) map[string]string {
	l := r.list(i)
	out := make(map[string]string, len(l)/2)
	for j := 0; j+1 < len(l); j += 2 {
		out[l.str(j)] = l.str(j + 1)
	}
	return out
}

func (r reply) counts() rollout.BufferCounts {
	return rollout.BufferCounts{
		Queued: r.int(0), InFlight: r.int(1), Ready: r.int(2), Claimed: r.int(3),
		Completed: r.int(4), Dropped: r.int(5), Bytes: r.int(6),
	}
}

// words reads numbers that a script has joined with spaces.
func words(s string) reply {
	var r reply
	for _, w := range strings.Fields(s) {
		r = append(r, w)
	}
	return r
}
