package activities

import (
	"cmp"
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/rollout"
)

// runWithHeartbeat plays on a goroutine of its own, or takes over the one that plays the game here already; it
// returns as which attempt the game was played. Meanwhile it tells Temporal that the game goes on, which it also does
// when requests wait in the queue for hours, until a call of its environment hangs. Then the game is left behind: a
// goroutine cannot be stopped, so it goes on hanging, and is counted.
//
// While many calls of its run's environment hang in this process already, nothing more of that run is begun here.
func runWithHeartbeat[T any](
	ctx context.Context, at *attempt, play func(context.Context) (T, error),
) (result T, played *attempt, err error) {
	if err := at.awaitHangingCalls(ctx); err != nil {
		return result, at, err
	}
	g, taken := playHere(ctx, at, play)
	w := newGameWatch(ctx, g.at, g.end)
	if err := w.until(g.ended, taken); err != nil {
		return result, g.at, err
	}
	if g.err != nil && w.instead != nil {
		return result, g.at, w.instead
	}
	return g.result, g.at, g.err
}

// gameWatch is an activity that looks after a game: it sends heartbeats and ends what must be ended.
//
// The game goes on while Temporal is unavailable. When Temporal waits for this activity no more, it goes on, too, for
// as long as the buffer knows of no later attempt: that attempt takes it over if it begins in this process, fences it
// off if it begins elsewhere, and finds the game finished if it begins too late for either.
type gameWatch struct {
	ctx     context.Context // the activity's
	game    *attempt        // as which the game is played
	endGame func()
	token   []byte
	timeout time.Duration // after which Temporal takes it for dead; 0: never
	instead error         // why the game was ended
	answers chan told     // of the question under way, at most one
	asking  bool          // there is one
	over    chan struct{} // its group is over, by the buffer's account
	adrift  bool          // Temporal waits for it no more
}

// told is an answer to a heartbeat, or the news that Temporal has forgotten the activity: why the game must end, if so.
type told struct {
	answer answer
	end    error
}

func newGameWatch(ctx context.Context, game *attempt, endGame func()) *gameWatch {
	w := &gameWatch{ctx: ctx, game: game, endGame: endGame, token: activity.GetInfo(ctx).TaskToken,
		answers: make(chan told, 1), over: make(chan struct{}, 1)}
	if game.begins {
		w.timeout = cmp.Or(activity.GetInfo(ctx).HeartbeatTimeout, game.plan.Timeouts.Heartbeat.Std())
	}
	return w
}

// until looks after the game until it has ended, or returns why it does so no more.
func (w *gameWatch) until(ended, taken <-chan struct{}) error {
	looks := time.NewTicker(w.game.lookEvery())
	defer looks.Stop()
	beat := time.NewTimer(beatEvery(w.timeout))
	defer beat.Stop()
	asks := time.NewTimer(beatEvery(w.game.plan.Timeouts.Heartbeat.Std()))
	defer asks.Stop()
	stop, done, news := activity.GetWorkerStopChannel(w.ctx), w.ctx.Done(), w.game.progress.news
	for {
		select {
		case <-taken:
			return errTakenOver
		case <-ended:
			if isTaken(taken) {
				return errTakenOver
			}
			return nil
		case <-done: // Temporal wants it no more, or its time is over
			done = nil
			w.endGame()
		case <-stop:
			stop = nil
			w.end(errWorkerStopped)
		case <-looks.C:
			if err := w.look(ended); err != nil {
				return err
			}
		case <-news: // the first is sent at once, later ones with the next heartbeat
			news = nil
			beat.Reset(0)
		case <-asks.C:
			if every := beatEvery(w.game.plan.Timeouts.Heartbeat.Std()); w.game.begins && every < beatEvery(w.timeout) {
				asks.Reset(every)
				go w.askAccount()
			}
		case <-w.over: // Temporal is asked how it is to end
			beat.Reset(0)
		case <-beat.C:
			if !w.asking {
				w.asking = true
				go func() { w.answers <- w.ask() }()
			}
		case t := <-w.answers:
			w.asking = false
			beat.Reset(w.hear(t))
		}
	}
}

// askAccount looks whether the group is over, as often as a heartbeat would tell if Temporal were to hear one as often
// as timeouts.heartbeat says. A look costs Redis a fiftieth of what a heartbeat costs Temporal.
func (w *gameWatch) askAccount() {
	ctx, cancel := context.WithTimeout(w.ctx, lookPatience)
	defer cancel()
	inPlay, err := w.game.Buffer.InPlay(ctx, w.game.plan.Ref)
	if err == nil && inPlay || err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
		return
	}
	select {
	case w.over <- struct{}{}:
	default:
	}
}

// lookPatience bounds a look at the account.
const lookPatience = 5 * time.Second

// end ends the game, and says why if nothing has before.
func (w *gameWatch) end(why error) {
	if w.instead == nil {
		w.instead = why
		w.endGame()
	}
}

// look ends a game that no engine can serve, and leaves one behind whose environment hangs.
func (w *gameWatch) look(ended <-chan struct{}) error {
	at := w.game
	if w.instead == nil {
		if err := at.unserved(w.ctx); err != nil {
			w.end(err)
		}
	}
	err := at.watch.Leave(at.Now())
	if err == nil {
		return nil
	}
	at.Log.Warn("left a game behind, whose environment hangs", "game", at.name(), "error", err, "hanging",
		at.HangingCalls.Count()+1)
	w.endGame()
	back := at.HangingCalls.leave(at.plan.Ref.Run, at.Now())
	go func() {
		<-ended
		back()
		at.Log.Info("a call of an environment returned after its game was left behind", "game", at.name(), "hanging",
			at.HangingCalls.Count())
	}()
	return err
}

// ask sends a heartbeat. What Temporal has forgotten asks the buffer instead whether it is still to go on.
func (w *gameWatch) ask() told {
	if w.adrift {
		return w.askBuffer()
	}
	if w.timeout <= 0 {
		return told{}
	}
	ctx, cancel := context.WithTimeout(w.ctx, max(beatEvery(w.timeout)/2, time.Second))
	defer cancel()
	details := w.game.progress.details()
	a := answerOf(w.game.Heartbeats.RecordActivityHeartbeat(ctx, w.token, details...))
	if a == ordered {
		activity.RecordHeartbeat(w.ctx, details...) // the SDK hears the same, and ends the context with its reason
	}
	return told{answer: a}
}

// askBuffer ends the game when its group is over or a later attempt has begun. Otherwise that attempt, when it comes,
// is one for which the game cannot be blamed: this one is alive.
func (w *gameWatch) askBuffer() told {
	at := w.game
	if !at.begins {
		return told{end: context.Canceled}
	}
	begun, err := at.Buffer.Begin(w.ctx, at.game(), at.started, at.temporalAttempt)
	switch {
	case rollout.Refused(err, rollout.Fenced), rollout.Refused(err, rollout.NoSuchRun):
		return told{end: err}
	case err != nil:
		return told{answer: unavailable}
	case begun.Finished:
		return told{end: rollout.Refuse(rollout.Fenced, "another attempt has finished %s", at.name())}
	}
	at.excuse(w.ctx, begun.Number)
	return told{}
}

// hear acts on an answer, and returns when to ask next.
func (w *gameWatch) hear(t told) time.Duration {
	every := beatEvery(w.timeout)
	switch {
	case t.end != nil:
		w.end(t.end)
	case t.answer == forgotten:
		w.adrift = true
		return 0
	case t.answer == unavailable:
		return max(every/8, time.Second/2)
	}
	if w.adrift {
		return w.game.lookEvery()
	}
	return every
}

// lookEvery is how often it is looked at whether a game can be played on, and whether its environment hangs.
func (at *attempt) lookEvery() time.Duration {
	every := max(at.plan.Timeouts.Heartbeat.Std()/3, time.Second)
	if limit := at.plan.Timeouts.PhaseLimit().Std(); limit > 0 {
		every = min(every, max(limit/4, time.Second/10))
	}
	return every
}
