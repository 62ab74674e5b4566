package buffer

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redisscript"
)

//go:embed lua/*.lua lua/journal/*.lua
var sources embed.FS

// The scripts; each one is an atomic change of one run.
var (
	openScript         = runless("open")
	limitsScript       = onRun("limits")
	versionScript      = onRun("version")
	statusScript       = onRun("status")
	accountScript      = onRun("account")
	confirmScript      = onRun("confirm")
	witnessedScript    = onRun("witnessed")
	repairScript       = onRun("repair", "grant")
	departuresScript   = onRun("departures")
	progressScript     = onRun("progress")
	deleteScript       = runless("delete")
	reviveScript       = onRun("revive")
	unheardScript      = onRun("unheard")
	forgetScript       = onRun("forget")
	queueScript        = onRun("queue")
	startScript        = onRun("start")
	peekScript         = onRun("peek")
	commitScript       = onRun("commit")
	discardScript      = onRun("discard")
	releaseScript      = onRun("release")
	beginScript        = onRun("begin")
	excuseScript       = onRun("excuse")
	checkpointScript   = onRun("checkpoint")
	episodeScript      = onRun("episode")
	tryFailedScript    = onRun("tryfailed")
	trySucceededScript = onRun("trysucceeded")
	triesScript        = onRun("attempts")
	alarmsScript       = onRun("alarms")
	attachScript       = onRun("attach")
	claimScript        = onRun("claim", "grant")
	batchScript        = onRun("batch")
	whereaboutsScript  = onRun("whereabouts")
	completeScript     = onRun("complete")
	heartbeatScript    = onRun("heartbeat")
	awaitedScript      = onRun("awaited")
	starvedScript      = onRun("starved")
	enginesScript      = onRun("engines")
	olderScript        = onRun("older")
	verdictScript      = onRun("verdict")
)

// The scripts of a game's journal, which do not touch the run's account.
var (
	openJournal    = onJournal("open")
	appendJournal  = onJournal("append")
	finishJournal  = onJournal("finish")
	replaceJournal = onJournal("replace")
)

func onJournal(name string) *redis.Script {
	return remember("journal "+name, redisscript.New(source("journal/head")+source("journal/"+name)))
}

// script is an atomic change of one run, or a look at it. It may answer what the lines --> of its file declare.
type script struct {
	*redis.Script
	name    string
	answers map[string][][]string // by code: the kinds of the values behind it; one of these
}

// baseOfKeys and tellFacts come first: where the run's keys begin, and the functions that write facts.
const baseOfKeys = "local base = string.sub(KEYS[1], 1, -4)\n"

var tellFacts = store.Lua()

// mustExist comes before the body of every script but those that runless makes.
const mustExist = "if call('EXISTS', run) == 0 then return {'no-such-run'} end\n"

// onRun is a script that refuses a run which does not exist. It may have functions in common with others.
func onRun(name string, shared ...string) *script { return load(name, mustExist, shared...) }

// runless is a script that has work to do without the run, too.
func runless(name string) *script { return load(name, "") }

func load(name, guard string, shared ...string) *script {
	body := source(name)
	answers := map[string][][]string{}
	for line := range strings.Lines(body) {
		if declared, is := strings.CutPrefix(line, "--> "); is {
			code, kinds := readAnswer(declared)
			answers[code] = append(answers[code], kinds)
		}
	}
	functions := source("prelude")
	for _, each := range shared {
		functions += source(each)
	}
	return &script{remember(name, redisscript.New(baseOfKeys+tellFacts+functions+guard+body)), name, answers}
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return string(text)
}

// eval runs a script on a run and returns its answer: a code, then what belongs to it. A run that does not
// exist is refused here, for all scripts alike.
func (s *Store) eval(ctx context.Context, sc *script, run rollout.RunName, args ...any) (reply, error) {
	answer, err := sc.Run(ctx, s.rdb, []string{s.key(run, "run")}, args...).Slice()
	if err != nil {
		return nil, trouble("redis", err)
	}
	r := reply(answer)
	switch r.code() {
	case rollout.NoSuchRun:
		if s.forgotten(ctx, sc, run) {
			return nil, unconfirmed(sc, run)
		}
		return nil, noSuchRun(run)
	case rollout.Invalid:
		return nil, rollout.Refuse(rollout.Invalid,
			"the group's number is far beyond every group of run %s; numbers go up one by one", run)
	}
	if r.code() == "unconfirmed" {
		if r.str(1) == "behind" {
			s.known.tellAgain(run)
		}
		return nil, unconfirmed(sc, run)
	}
	if !sc.declares(r) {
		return nil, fmt.Errorf("redis: script %s answers what it does not declare: %.200q", sc.name, fmt.Sprint(answer))
	}
	return r, nil
}

// do runs a script and ignores its answer but for refusals.
func (s *Store) do(ctx context.Context, doing string, sc *script, run rollout.RunName, args ...any) error {
	_, err := s.did(ctx, doing, sc, run, args...)
	return err
}

// did runs a script that answers whether it has changed something.
func (s *Store) did(ctx context.Context, doing string, sc *script, run rollout.RunName, args ...any) (bool, error) {
	r, err := s.eval(ctx, sc, run, args...)
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	return r.int(1) == 1, nil
}

// forgotten reports whether a trainer calls for a run that Redis has forgotten. The run's workflow opens it again.
func (s *Store) forgotten(ctx context.Context, sc *script, run rollout.RunName) bool {
	trainers := sc == claimScript || sc == attachScript || sc == completeScript
	return trainers && s.MayReturn(ctx, run)
}

func noSuchRun(run rollout.RunName) error {
	if run.Life() > 1 {
		return rollout.Refuse(rollout.NoSuchRun, "there is no run %q any more: it was deleted; `millrace run list` shows "+
			"the runs", string(run.Plain()))
	}
	return rollout.Refuse(rollout.NoSuchRun, "there is no run %q; `millrace run list` shows the runs", string(run))
}
