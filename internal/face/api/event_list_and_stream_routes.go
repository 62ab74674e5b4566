package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// heartbeat is how often a silent stream shows that it lives, so that proxies keep it open, and how often it is asked
// whether its reader's token is still good.
const heartbeat = 15 * time.Second

// streamTimeout is how long a reader may leave an event unread once the buffers between are full: its stream ends,
// and it may come again with the id of the last event it saw.
const streamTimeout = 10 * time.Second

type eventsInput struct {
	RunPath
	EventsQuery
}

// EventsQuery says which events, and how.
type EventsQuery struct {
	After  string `query:"after" maxLength:"64" doc:"Only events after the one with this id"`
	LastID string `header:"Last-Event-ID" doc:"The same, as browsers send it when they reconnect"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"For a list: how many"`
	Accept string `header:"Accept"`
	EventsFilter
}

func (in *EventsQuery) after() string {
	if in.LastID != "" {
		return in.LastID
	}
	return in.After
}

// EventList is events, with where to ask again.
type EventList struct {
	Events []Event       `json:"events"`
	Next   string        `json:"next" doc:"The last event that was looked at: ask again after it, whether it is in the list or not"`
	Gone   *[]GoneEvents `json:"gone,omitempty" doc:"In a list from the beginning: what is not kept any more, by kind"`
}

func (s *Server) registerEvents() {
	events := func(id string) huma.Operation {
		op := s.operation(id)
		op.Responses["200"] = &huma.Response{Description: "Events", Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
			"application/json":  {Schema: schemaOf[EventList](s)},
		}}
		return op
	}
	huma.Register(s.api, events("follow-events"), s.runEvents)
	huma.Register(s.api, events("follow-fleet-events"), s.fleetEvents)
}

type eventsOutput struct{ Body func(huma.Context) }

func (s *Server) runEvents(ctx context.Context, in *eventsInput) (*eventsOutput, error) {
	if _, err := s.deps.Store.Status(ctx, in.Run); err != nil {
		return nil, s.fail(ctx, "follow events", err)
	}
	return s.events(ctx, in.Run, &in.EventsQuery)
}

// fleetEvents are those of no run.
func (s *Server) fleetEvents(ctx context.Context, in *EventsQuery) (*eventsOutput, error) {
	return s.events(ctx, "", in)
}

func (s *Server) events(ctx context.Context, run rollout.RunName, in *EventsQuery) (*eventsOutput, error) {
	wanted, err := in.filter()
	if err != nil {
		return nil, err
	}
	after, err := in.start(in.after(), s.deps.Now())
	if err != nil {
		return nil, err
	}
	if strings.Contains(in.Accept, "text/event-stream") {
		leave, refused := s.gates.enter(ctx, "streams", run)
		if refused != nil {
			return nil, refused
		}
		return &eventsOutput{func(hc huma.Context) {
			defer leave()
			s.stream(hc, run, after, wanted)
		}}, nil
	}
	list, err := s.recent(ctx, run, after, in.Limit, wanted)
	if err == nil && after == "" {
		list.Gone, err = s.gone(ctx, run)
	}
	if err != nil {
		return nil, s.fail(ctx, "list events", err)
	}
	return &eventsOutput{func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/json")
		hc.SetStatus(http.StatusOK)
		_ = s.api.Marshal(hc.BodyWriter(), "application/json", list) // A client that has gone needs no answer.
	}}, nil
}

// eventsPage is how many events are read at a time, and eventsSifted how many are looked at for those that are
// wanted, for one answer.
const (
	eventsPage   = 50
	eventsSifted = 5000
)

// gone is the count of events that a list from the beginning lacks.
func (s *Server) gone(ctx context.Context, run rollout.RunName) (*[]GoneEvents, error) {
	gone, err := s.deps.Events.Gone(ctx, run)
	if err != nil {
		return nil, err
	}
	gone = append([]GoneEvents{}, gone...)
	return &gone, nil
}

// recent reads events page by page until they are enough for one answer.
func (s *Server) recent(ctx context.Context, run rollout.RunName, after string, limit int,
	wanted filter) (EventList, error) {
	list := EventList{Events: []Event{}, Next: after}
	for size, seen := 0, 0; len(list.Events) < limit && size < answerBytes && seen < eventsSifted; {
		want := eventsPage
		if wanted.all() {
			want = min(want, limit-len(list.Events))
		}
		page, err := s.deps.Events.Recent(ctx, run, list.Next, want)
		if err != nil {
			return list, err
		}
		seen += len(page)
		for _, e := range page {
			if list.Next = e.ID; !wanted.wants(e) {
				continue
			}
			size += len(e.Data)
			if list.Events = append(list.Events, e); len(list.Events) == limit {
				break
			}
		}
		if len(page) < want {
			break
		}
	}
	return list, nil
}

// stream sends events until the client goes, may not read them any more, the server stops or the history fails. A
// client reconnects by itself, with the id of the last event it saw.
func (s *Server) stream(hc huma.Context, run rollout.RunName, after string, wanted filter) {
	ctx, leave := s.untilStopped(hc.Context())
	defer leave()
	hc.SetHeader("Content-Type", "text/event-stream")
	hc.SetHeader("Cache-Control", "no-store")
	hc.SetHeader("X-Accel-Buffering", "no")
	hc.SetStatus(http.StatusOK)
	out := &eventWriter{hc: hc}
	if out.write([]byte(": millrace events\nretry: 1000\n\n")) != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() {
		for retry.Pause(ctx, heartbeat) == nil {
			if out.write([]byte(": alive\n\n")) != nil || withdrawn(hc) != "" {
				cancel()
			}
		}
	})
	err := s.deps.Events.Follow(ctx, run, after, func(e Event) error {
		if !wanted.wants(e) {
			return nil
		}
		return out.write(encodeEvent(e))
	})
	cancel()
	beats.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		s.deps.Log.Info("event stream ended", "request_id", requestID(ctx), "run", run, "error", err)
	}
}

// encodeEvent is the event in the format of server-sent events.
func encodeEvent(e Event) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s\nevent: %s\n", oneLine(e.ID), oneLine(e.Kind))
	for line := range bytes.Lines(e.Data) {
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func oneLine(text string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(text) }

// eventWriter writes to a stream, each time with a fresh deadline, and sends it on its way at once.
type eventWriter struct {
	hc huma.Context
	mu sync.Mutex
}

func (w *eventWriter) write(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	out, ok := w.hc.BodyWriter().(*answerWriter)
	if !ok {
		return errors.New("the connection cannot stream")
	}
	out.patience = streamTimeout
	if _, err := out.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(out).Flush()
}
