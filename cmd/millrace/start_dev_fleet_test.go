package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/freeport"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestSeatOf gives a simulated engine the address that the fleet knows it by, as long as that is to be had.
func TestSeatOf(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	taken := "http://" + busy.Addr().String()
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	free := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, tt := range []struct {
		name     string
		known    []enginestate.Engine
		sameName bool
		want     string // URL; empty: any free one
	}{
		{"nobody knows it", nil, true, ""},
		{"another is known", []enginestate.Engine{{ID: "engine-0", URL: free}}, true, ""},
		{"it comes back", []enginestate.Engine{{ID: "engine-1", URL: free}}, true, free},
		{"its place is taken", []enginestate.Engine{{ID: "engine-1", URL: taken}}, false, ""},
		{"it was on another machine", []enginestate.Engine{{ID: "engine-1", URL: "http://10.0.0.5:8000"}}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := seatOf(1, tt.known)
			if err != nil || got.port == 0 || (got.name == "engine-1") != tt.sameName ||
				!strings.HasPrefix(got.name, "engine-1") {
				t.Fatalf("%+v, %v", got, err)
			}
			if tt.want != "" && got.url() != tt.want || got.url() == taken {
				t.Errorf("at %s, want %q", got.url(), tt.want)
			}
		})
	}
}
