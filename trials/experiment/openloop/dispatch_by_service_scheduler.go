package openloop

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
)

// dispatcher is the service's own, which sends every request alone.
type dispatcher struct {
	*player
	fleet   *serving.Fleet
	ids     []rollout.EngineID
	numbers map[dispatch.ID]int
	refusal error // of an engine, the first
}

// refusalKeeper keeps why an engine refused a request, of which the dispatcher learns only that it did.
type refusalKeeper struct {
	enginemodel.Engine
	first *error
}

// Submit passes requests on.
func (k *refusalKeeper) Submit(now time.Duration, calls []enginemodel.Call) error {
	err := k.Engine.Submit(now, calls)
	if err != nil && *k.first == nil {
		*k.first = err
	}
	return err
}

// run is the name under which all requests are dispatched.
const run = rollout.RunName("open-loop")

func newDispatcher(p *player) *dispatcher {
	d := &dispatcher{player: p, numbers: map[dispatch.ID]int{}}
	d.fleet = serving.New(p.agenda, serving.Config{
		Scheduler: dispatch.Config{MaxQueued: len(p.setting.Requests) + 1}, Log: d.log, Start: time.Unix(0, 0).UTC(),
	})
	d.fleet.Rules(run, p.setting.Rules)
	return d
}

func (d *dispatcher) addEngine(e enginemodel.Engine, limit int, models []string) {
	// An ID sorts like the number: among idle engines the dispatcher takes the first.
	id := rollout.EngineID(fmt.Sprintf("engine-%06d", len(d.ids)))
	d.ids = append(d.ids, id)
	d.fleet.AddEngine(id, &refusalKeeper{e, &d.refusal}, limit, 0, models)
}

func (d *dispatcher) submit(_ time.Duration, number int, r *Request) {
	d.fleet.Submit(serving.Request{
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(number)}},
		Model:   r.Model, Prompt: r.Prompt, Output: r.Output, ToldPrompt: r.Prompt, ToldOutput: r.Predicted,
		Client: d, Tag: uint64(number),
	})
}

// log notes where requests are sent.
func (d *dispatcher) log(_ time.Time, ev dispatch.Event, commands []dispatch.Command) {
	if submitted, ok := ev.(dispatch.Submit); ok {
		d.numbers[submitted.ID] = int(submitted.Episode.Seq)
	}
	for _, c := range commands {
		if sent, ok := c.(dispatch.Send); ok {
			engine, _ := slices.BinarySearch(d.ids, sent.Engine)
			d.sent(engine, d.numbers[sent.ID])
		}
	}
}

// Answered takes in the end of a request.
func (d *dispatcher) Answered(now time.Duration, tag uint64, answer serving.Answer) {
	d.answered(now, int(tag))
	delete(d.numbers, answer.ID)
	if answer.Rejected == "" {
		return
	}
	r := d.setting.Requests[tag]
	err := fmt.Errorf("request %d (%d prompt and %d output tokens) was rejected at %v: %s", tag, r.Prompt, r.Output, now,
		answer.Rejected)
	if d.refusal != nil {
		err = fmt.Errorf("%w: %w", err, d.refusal)
	}
	d.fail(err)
}
