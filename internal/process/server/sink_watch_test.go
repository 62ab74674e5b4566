package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

type oneSink telemetry.SinkStatus

func (s oneSink) SinkStatus(context.Context) (telemetry.SinkStatus, error) {
	return telemetry.SinkStatus(s), nil
}

// TestWhichSinksAreShown: one that was switched off, and that nothing waits for, is none.
func TestWhichSinksAreShown(t *testing.T) {
	t.Parallel()
	type status = telemetry.SinkStatus
	for _, tt := range []struct {
		name       string
		sink       status
		age        time.Duration // of what the sink said last
		configured bool
		want       telemetry.SinkState // empty: none
	}{
		{"never used", status{}, 0, false, ""},
		{"not begun", status{}, 0, true, telemetry.SinkStopped},
		{"delivers elsewhere", status{State: telemetry.SinkOK}, 0, false, telemetry.SinkOK},
		{"switched off", status{State: telemetry.SinkStopped}, time.Hour, false, ""},
		{"killed, and switched off", status{State: telemetry.SinkOK}, time.Hour, false, ""},
		{"killed with a backlog", status{State: telemetry.SinkOK, Backlog: 9}, time.Hour, false, telemetry.SinkStopped},
		{"with dead letters", status{State: telemetry.SinkOK, DeadLetters: 9}, time.Hour, false, telemetry.SinkStopped},
		{"long ago", status{State: telemetry.SinkOK, Backlog: 9}, 2 * delivery.SinkForgotten, false, ""},
		{"silent, and configured", status{State: telemetry.SinkOK}, time.Hour, true, telemetry.SinkStopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tt.sink.UpdatedAt = time.Now().Add(-tt.age)
				w := &sinkWatch{store: oneSink(tt.sink), configured: tt.configured}
				got, err := w.look(t.Context())
				switch {
				case err != nil || len(got) > 1:
					t.Fatalf("%+v, %v", got, err)
				case len(got) == 0 && tt.want != "" || len(got) == 1 && got[0].State != tt.want:
					t.Errorf("shown %+v, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestDeliveredNeverFalls: letters are kept before the cursor passes their events; the sums add up all the same.
func TestDeliveredNeverFalls(t *testing.T) {
	t.Parallel()
	was := telemetry.SinkStatus{Written: 100, Delivered: 80, DeadLetters: 5, Backlog: 15}
	is := afterwards(was, telemetry.SinkStatus{Written: 100, Delivered: 78, DeadLetters: 7, Backlog: 15})
	if is.Delivered != 80 || is.Written != is.Delivered+is.DeadLetters+is.Lost()+is.Backlog {
		t.Errorf("%+v", is)
	}
	begun := telemetry.SinkStatus{Written: 3, Delivered: 1, Backlog: 2}
	if is := afterwards(was, begun); is != begun {
		t.Errorf("of a sink that was forgotten and came again: %+v", is)
	}
}
