package axiom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	axiomgo "github.com/axiomhq/axiom-go/axiom"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/observe/axiom/resources"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// annotator marks changes in Axiom's charts: publications, engines, runs' specs, verdicts of diagnosis. It gets the
// delivered events. Annotations are optional: a refusal, such as that of a token that may only ingest, is logged once
// and has no other effect. An annotation that could not be written for an hour is dropped.
type annotator struct {
	axiom   resources.Caller
	dataset string
	log     *slog.Logger
	waiting chan mark

	published map[rollout.RunName]time.Time // the latest publication of a run with a mark
	refused   bool                          // and that was logged
}

const (
	maxMarks  = 256             // that wait; others are left out
	markLate  = time.Hour       // after which what could not be written is left out
	markPause = time.Minute     // after Axiom did not answer
	markLimit = 5 * time.Minute // the longest pause that Axiom is granted
	// together is how close to the one before a publication of a run has no mark: marks that cover the chart show nothing.
	together = time.Minute
)

func newAnnotator(axiom resources.Caller, dataset string, log *slog.Logger) *annotator {
	return &annotator{axiom: axiom, dataset: dataset, log: log, waiting: make(chan mark, maxMarks),
		published: map[rollout.RunName]time.Time{}}
}

// delivered marks the important events of a batch, except those that were refused.
func (a *annotator) delivered(rows []row, refused map[int]string) {
	for i, r := range rows {
		m, worth := markOf(r.record)
		if _, no := refused[i]; no || !worth || r.scope == store.Replayed {
			continue
		}
		if m.typ == "publication" {
			if last := a.published[m.run]; m.at.Sub(last).Abs() < together {
				continue
			}
			a.published[m.run] = m.at
		}
		select {
		case a.waiting <- m:
		default:
		}
	}
}

// run writes marks until ctx is done.
func (a *annotator) run(ctx context.Context) {
	for {
		select {
		case m := <-a.waiting:
			a.write(ctx, m)
		case <-ctx.Done():
			return
		}
	}
}

// write makes an annotation, and tries again while Axiom does not answer or limits requests.
func (a *annotator) write(ctx context.Context, m mark) {
	for ctx.Err() == nil && time.Since(m.at) < markLate {
		err := a.axiom.Call(ctx, http.MethodPost, "/v2/annotations", map[string]any{
			"datasets": []string{a.dataset}, "type": m.typ, "time": m.at.UTC(), "title": m.title,
			"description": strings.TrimSpace(m.text + "\nevent_id " + m.id),
		}, &struct{}{})
		var answer axiomgo.HTTPError
		var limit axiomgo.LimitError
		pause := markPause
		switch {
		case err == nil:
			a.refused = false
			return
		case errors.As(err, &limit):
			pause = min(max(time.Until(limit.Limit.Reset), time.Second), markLimit)
		case errors.As(err, &answer) && answer.Status < 500 && answer.Status != http.StatusRequestTimeout &&
			answer.Status != http.StatusTooManyRequests && answer.Status != statusQuota:
			a.sayRefused(err)
			return
		}
		_ = retry.Pause(ctx, pause) // the loop sees that ctx is done
	}
}

func (a *annotator) sayRefused(err error) {
	if !a.refused {
		a.refused = true
		a.log.Warn("annotations are not written to Axiom; events are not concerned. Give the token the permission "+
			"annotations: create", "dataset", a.dataset, "answer", err)
	}
}

// mark is what one event is marked with.
type mark struct {
	at                   time.Time
	typ, title, text, id string // the type is publication, engine, run, scaling or verdict
	run                  rollout.RunName
}

// markOf is an event's mark; most events have none.
func markOf(r store.Record) (mark, bool) {
	// Of another version of the program, too: these fields are every event's.
	var head struct {
		At     time.Time        `json:"_time"`
		ID     string           `json:"event_id"`
		Run    rollout.RunName  `json:"run_id"`
		Engine rollout.EngineID `json:"engine_id"`
	}
	if !marked[r.Kind] || json.Unmarshal(r.Data, &head) != nil || head.At.IsZero() {
		return mark{}, false
	}
	m := mark{at: head.At, id: head.ID, run: head.Run}
	if r.Kind == "diagnosed" {
		return m.verdict(r.Data)
	}
	e, err := r.Event()
	if err != nil {
		return mark{}, false
	}
	switch body := e.Body.(type) {
	case telemetry.PolicyPublished:
		return m.publication(body)
	case telemetry.EngineChanged:
		m.typ, m.title, m.text = "engine", fmt.Sprintf("%s: %s", head.Engine, body.State), body.Reason
	case telemetry.RunChanged:
		m.typ, m.title, m.text = "run", fmt.Sprintf("%s: %s", head.Run, body.Change), body.Reason
		if body.Change == "" {
			m.title = fmt.Sprintf("%s: %s", head.Run, body.State)
		}
	case telemetry.FleetScaled:
		m.typ, m.title, m.text = "scaling", scaledText(body), body.Reason
	case telemetry.FleetMeasured:
		m.typ, m.title = "scaling", fmt.Sprintf("scaling decision %d: %s", body.Decision, body.Text)
	case telemetry.ProviderChanged:
		m.typ, m.title, m.text = "scaling", fmt.Sprintf("provider %s does what it is asked for", body.Provider), body.Trouble
		if body.Trouble != "" {
			m.title = fmt.Sprintf("provider %s does not do what it is asked for", body.Provider)
		}
	case telemetry.AdapterChanged, telemetry.AdapterLoaded, telemetry.AlarmChanged, telemetry.Audit,
		telemetry.BatchClaimed, telemetry.BreakerChanged, telemetry.BufferLevel, telemetry.Diagnosed,
		telemetry.DispatchSample, telemetry.EnginePaced, telemetry.EngineSample, telemetry.EpisodeFailed,
		telemetry.EpisodeFinished, telemetry.GroupDropped, telemetry.GroupReady,
		telemetry.RewardVarianceChanged, telemetry.SinkChanged, telemetry.StepCompleted, telemetry.TokenRates:
		return mark{}, false
	}
	return m, true
}

// marked are the kinds of events that are marked.
var marked = map[string]bool{"policy_published": true, "engine_changed": true, "run_changed": true, "diagnosed": true,
	"fleet_scaled": true, "fleet_measured": true, "provider_changed": true}

func scaledText(b telemetry.FleetScaled) string {
	if b.To > b.From {
		return fmt.Sprintf("scaling wants %d engines, %d more", b.To, b.To-b.From)
	}
	return fmt.Sprintf("scaling wants %d engines, %d fewer", b.To, b.From-b.To)
}

func (m mark) publication(body telemetry.PolicyPublished) (mark, bool) {
	p := body.Policy
	m.typ = "publication"
	switch p.State {
	case runstatus.PolicyServing:
		m.title = fmt.Sprintf("%s: version %d serves", m.run, p.Version)
	case runstatus.PolicyRejected:
		m.title, m.text = fmt.Sprintf("%s: version %d was rejected", m.run, p.Version), p.Reason
	default: // on its way, or gone
		return mark{}, false
	}
	return m, true
}

// verdict is a diagnosis that says something else than before: a change point, its cause, or its end.
func (m mark) verdict(data []byte) (mark, bool) {
	var body struct{ Verdict, Was, Cause, Text string }
	if json.Unmarshal(data, &body) != nil || body.Verdict == "" {
		return mark{}, false
	}
	m.typ, m.title, m.text = "verdict", fmt.Sprintf("%s: %s", m.run, body.Verdict), body.Text
	if body.Cause != "" {
		m.title += ": " + body.Cause
	}
	if body.Was != "" {
		m.title += fmt.Sprintf(" (was %s)", body.Was)
	}
	return m, true
}
