// Package annotations marks in Axiom's charts when something changed: publications, engines, runs' specs, verdicts of
// diagnosis. It reads the same facts as the delivery of events, with a cursor of its own, and one server at a time
// writes. Annotations are ornaments: a refusal, such as that of a token that may only ingest, is said once and costs
// nothing else, and what could not be written for an hour is left out. The facts themselves are in the dataset.
//
// Start reading at Of, then Writer.
package annotations

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// Annotation is a mark in the charts of a dataset.
type Annotation struct {
	Datasets    []string   `json:"datasets"`
	Type        string     `json:"type"` // publication, engine, run, scaling or verdict
	Time        time.Time  `json:"time"`
	EndTime     *time.Time `json:"endTime,omitempty"`
	Title       string     `json:"title"`
	Description string     `json:"description"` // ends with the event_id
}

// mark is what one event is marked with.
type mark struct {
	at                   time.Time
	typ, title, text, id string
	run                  rollout.RunName
	version              rollout.PolicyVersion // of a publication; 0: none
}

// together is how close the publications of a run are that become one annotation.
const together = time.Minute

// Of is the annotations of events, oldest first. Publications of a run that follow each other closely become one, from
// the first to the last: marks that cover the chart show nothing.
func Of(dataset string, records []store.Record) []Annotation {
	var out []Annotation
	open := map[rollout.RunName]*publications{}
	for _, r := range records {
		m, ok := markOf(r)
		if !ok {
			continue
		}
		if p := open[m.run]; m.version > 0 && p != nil && m.at.Sub(p.last) < together {
			p.add(m, &out[p.at])
			continue
		}
		out = append(out, Annotation{Datasets: []string{dataset}, Type: m.typ, Time: m.at.UTC(), Title: m.title,
			Description: strings.TrimSpace(m.text + "\nevent_id " + m.id)})
		if m.version > 0 {
			open[m.run] = &publications{at: len(out) - 1, first: m.version, last: m.at}
		}
	}
	return out
}

// publications are those that one annotation stands for.
type publications struct {
	at    int // its place
	first rollout.PolicyVersion
	last  time.Time
}

func (p *publications) add(m mark, a *Annotation) {
	p.last = m.at
	end := m.at.UTC()
	a.EndTime = &end
	a.Title = fmt.Sprintf("%s: versions %d to %d serve", m.run, p.first, m.version)
	a.Description += "\nevent_id " + m.id
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
	case rollout.PolicyServing:
		m.title, m.version = fmt.Sprintf("%s: version %d serves", m.run, p.Version), p.Version
	case rollout.PolicyRejected:
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
