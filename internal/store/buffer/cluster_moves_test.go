package buffer_test

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// The slots of a run's account and of a game's journal go to another node of a Cluster in the middle of everything.
// What is done meanwhile is done whole or refused for the moment, and nothing of either is lost.
func TestSlotsMoveWhileARunIsPlayed(t *testing.T) {
	t.Parallel()
	nodes := redistest.Masters(t, 2)
	f := &fixture{Store: buffer.New(nodes.Client, buffer.Options{}), t: t, ctx: t.Context(), rdb: nodes.Client}
	f.ok(f.Open(f.ctx, spec(1, 99)))
	f.queue(0, 19)
	of := playJournal(t, f, game(19, 0), 1)
	f.ok(of.answer("FRANCE"))

	refused := 0
	try := func(err error) bool {
		if err != nil && !rollout.Refused(err, rollout.Unavailable) {
			t.Errorf("refused, and not for the moment: %v", err)
		}
		if err != nil {
			refused++
		}
		return err == nil
	}
	committed, granted := 0, 0
	change := func(int) {
		if _, err := f.CommitGroup(f.ctx, group(committed, 0)); try(err) {
			committed++
		}
		if granted < committed {
			_, err := f.Claim(f.ctx, run, rollout.Step(granted), 0, buffer.Share{})
			if try(err) {
				_, _, err = f.Complete(f.ctx, run, rollout.Step(granted), 0, report(granted), steprecord.FleetView{})
				for !try(err) && refused < 99 {
					_, _, err = f.Complete(f.ctx, run, rollout.Step(granted), 0, report(granted), steprecord.FleetView{})
				}
				granted++
			}
		}
	}
	change(0)
	for range 3 {
		nodes.Move(t, "millrace:{demo}:run", change)
		f.confirm() // another node has another replication id
		change(0)
	}
	if refused == 0 {
		t.Error("nothing was refused: no call fell into a move")
	}
	account, err := f.Account(f.ctx, run)
	f.ok(err)
	expect(t, "granted", int(account.ClaimedTo), granted)
	expect(t, "completed", int(account.Counts.Completed), granted)
	expect(t, "ready", int(account.Counts.Ready), committed-granted)
	expect(t, "in their places", account.Launched, account.Counts.Queued+account.Counts.InFlight+account.Counts.Ready+
		account.Counts.Claimed+account.Counts.Completed+account.Counts.Dropped)

	nodes.Move(t, "millrace:{demo/19/0}:journal", func(int) {})
	f.ok(of.answer("ITALY"))
	f.ok(of.phase())
}
