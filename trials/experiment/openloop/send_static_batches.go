package openloop

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"

	"github.com/millrace/millrace/trials/experiment/staticbatch"
)

// batcher sends requests in static batches.
type batcher struct {
	*player
	scheduler *staticbatch.Scheduler
	working   []*workingEngine
	flush     *virtualtime.Timer
}

// workingEngine is an engine, and when it has something to report.
type workingEngine struct {
	of     *batcher
	model  enginemodel.Engine
	report *virtualtime.Timer
}

func newBatcher(p *player) *batcher {
	b := &batcher{player: p, scheduler: staticbatch.New(p.setting.Batching, p.setting.Rules)}
	b.flush = p.agenda.Timer(serving.ClassWake, flushing{b}, 0)
	return b
}

func (b *batcher) addEngine(model enginemodel.Engine, limit int, models []string) {
	e := &workingEngine{of: b, model: model}
	e.report = b.agenda.Timer(serving.ClassEngine, e, 0)
	b.working = append(b.working, e)
	b.scheduler.AddEngine(limit, models)
}

func (b *batcher) submit(now time.Duration, number int, r *Request) {
	b.send(now, b.scheduler.Submit(now, staticbatch.Request{
		Number: number, Model: r.Model, Prompt: r.Prompt, Output: r.Predicted, Class: r.Class,
	}))
}

// send brings batches to their engines, and sees to it that the next window ends.
func (b *batcher) send(now time.Duration, batches []staticbatch.Batch) {
	for _, batch := range batches {
		b.sent(batch.Engine, batch.Requests...)
		var calls []enginemodel.Call
		for _, i := range batch.Requests {
			r := b.setting.Requests[i]
			calls = append(calls, enginemodel.Call{ID: uint64(i), Prompt: r.Prompt, Output: r.Output})
		}
		e := b.working[batch.Engine]
		if err := e.model.Submit(now, calls); err != nil {
			b.fail(err)
		}
		e.setReport()
	}
	if at, any := b.scheduler.NextFlush(now); any {
		b.flush.Set(at)
	} else {
		b.flush.Stop()
	}
}

// Happen takes in the answers that an engine has.
func (e *workingEngine) Happen(now time.Duration, _ uint64) {
	b := e.of
	for _, ev := range slices.Clone(e.model.Advance(now)) {
		r := &b.setting.Requests[ev.ID]
		b.answered(ev.At, int(ev.ID))
		b.send(now, b.scheduler.Ended(now, int(ev.ID), r.Prompt, r.Output))
	}
	e.setReport()
}

func (e *workingEngine) setReport() {
	if at, ok := e.model.Next(); ok {
		e.report.Set(at)
	} else {
		e.report.Stop()
	}
}

// flushing is the end of a window.
type flushing struct{ *batcher }

// Happen sends what has waited long enough.
func (f flushing) Happen(now time.Duration, _ uint64) { f.send(now, f.scheduler.Flush(now)) }
