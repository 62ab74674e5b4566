package server

import (
	"context"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// eventStream is the event store in the API's words.
type eventStream struct{ *store.Store }

// Recent lists events after the one with id after, oldest first.
func (s eventStream) Recent(ctx context.Context, run rollout.RunName, after string, limit int) ([]api.Event, error) {
	records, err := s.Store.Recent(ctx, run, after, limit)
	if err != nil {
		return nil, err
	}
	events := make([]api.Event, len(records))
	for i, r := range records {
		events[i] = eventOf(r)
	}
	return events, nil
}

// Gone counts what is not kept any more, by kind.
func (s eventStream) Gone(ctx context.Context, run rollout.RunName) ([]api.GoneEvents, error) {
	found, err := s.Store.Gone(ctx, run)
	if err != nil {
		return nil, err
	}
	gone := make([]api.GoneEvents, len(found))
	for i, g := range found {
		gone[i] = api.GoneEvents(g)
	}
	return gone, nil
}

// Follow hands on every event until ctx is done or see fails.
func (s eventStream) Follow(ctx context.Context, run rollout.RunName, after string, see func(api.Event) error) error {
	return s.Store.Follow(ctx, run, after, func(r store.Record) error {
		return see(eventOf(r))
	})
}

func eventOf(r store.Record) api.Event { return api.Event{ID: r.ID, Kind: r.Kind, Data: r.Data} }
