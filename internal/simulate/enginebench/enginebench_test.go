package enginebench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim"
)

func TestRatesOfEnginesAddUp(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	a := between(
		reading{at: at, input: 1000, output: 100, cached: 500, busy: 3, of: 5},
		reading{at: at.Add(10 * time.Second), input: 6000, output: 400, cached: 4500, busy: 11, of: 15})
	b := between(
		reading{at: at, input: 0, output: 0, busy: 0, of: 0},
		reading{at: at.Add(5 * time.Second), input: 5000, output: 350, cached: 1000, busy: 5, of: 5})
	want := totals{inputTPS: 500 + 1000, outputTPS: 30 + 70, cachedShare: 0.5, busyShare: 0.9}
	if got := sum([]window{a, b}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	trainer := demand{gamesPerStep: 48, stepSec: 10}
	for _, tt := range []struct {
		name          string
		engines       int
		games, closed totals
		perMin, base  float64
		want          Row
	}{
		{
			"the first row is what the others are compared with; the trainer starves",
			1, totals{inputTPS: 9000, outputTPS: 950, busyShare: 1}, totals{outputTPS: 1000}, 120, 0,
			Row{1, 120, 9000, 950, 1, 1000, 0.95, 1, 14},
		},
		{
			"four engines do 3.8 times the work and the trainer is the bottleneck",
			4, totals{inputTPS: 36000, outputTPS: 3800, busyShare: 0.98}, totals{outputTPS: 3800}, 480, 1000,
			Row{4, 480, 36000, 3800, 0.98, 3800, 1, 0.95, 0},
		},
		{"nothing was done", 2, totals{}, totals{}, 0, 0, Row{Engines: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := row(tt.engines, tt.games, tt.perMin, tt.closed, tt.base, trainer); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestGamesPerMin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		calls    int64
		sec      float64
		finished played
		want     float64
	}{
		{"calls of unfinished games count as parts of games", 420, 30, played{calls: 900, games: 10, gameCalls: 420}, 20},
		{"no game has ended", 420, 30, played{}, 0},
		{"no time has passed", 420, 0, played{games: 1, gameCalls: 42}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := gamesPerMin(tt.calls, tt.sec, tt.finished); got != tt.want {
				t.Errorf("got %g, want %g", got, tt.want)
			}
		})
	}
}

func TestAffordable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		cores, engines int
		speed          float64
		want           int
	}{
		{"a laptop in real time", 2, 8, 1, 8},
		{"one engine", 2, 1, 1, 64},
		{"twenty times as fast leaves one call at a time", 2, 8, 20, 1},
		{"more cores, more calls", 16, 8, 1, 64},
		{"never none", 1, 1000, 1000, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := affordable(tt.cores, tt.engines, tt.speed); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestUpTo(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 8: {1, 2, 4, 8}} {
		if got := UpTo(n); !reflect.DeepEqual(got, want) {
			t.Errorf("UpTo(%d) = %v, want %v", n, got, want)
		}
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	c := Config{Counts: []int{0, 2, 2}, URLs: []string{"http://x"}, Speed: 3, Concurrency: -1}
	err := c.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, fault := range []string{"0 is no number", "listed twice", "only 1 engines", "real engines run at speed 1",
		"concurrency: -1", "seconds", "samples", "years"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is not named in:\n%v", fault, err)
		}
	}
}

// quick is a measurement of a fraction of a second.
func quick() Config {
	c := DefaultConfig()
	c.Counts, c.Speed, c.Concurrency, c.Window = []int{1, 2}, 200, 3, 200*time.Millisecond
	c.Samples, c.Years, c.Groups = 1, 1, 4
	return c
}

func TestEnginesMeasuresEveryCount(t *testing.T) {
	t.Parallel()
	res, err := Engines(t.Context(), quick())
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Rows) != 2 || res.Rows[0].Engines != 1 || res.Rows[1].Engines != 2 {
		t.Fatalf("rows %+v", res.Rows)
	}
	if res.Rows[0].ScalingEfficiency != 1 {
		t.Errorf("the first row scales by %g, want 1", res.Rows[0].ScalingEfficiency)
	}
	for _, r := range res.Rows {
		v := reflect.ValueOf(r)
		for i := 1; i < v.NumField()-1; i++ { // all but the count and the starvation, which may be 0
			if f := v.Field(i).Float(); f <= 0 || math.IsInf(f, 0) || math.IsNaN(f) {
				t.Errorf("%d engines: %s is %g", r.Engines, v.Type().Field(i).Name, f)
			}
		}
		if r.BusyShare > 1 {
			t.Errorf("%d engines: busy %g of the time", r.Engines, r.BusyShare)
		}
	}
	checkReport(t, res)
}

func checkReport(t *testing.T, res Result) {
	t.Helper()
	var text bytes.Buffer
	doc, err := json.Marshal(res)
	if err := errors.Join(err, res.WriteText(&text)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"OUT tok/s", "speed x200", "cores", "EFFICIENCY"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, text.String())
		}
	}
	var rows []map[string]float64
	if err := json.Unmarshal(doc, &rows); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"engines", "games_per_min", "input_tps", "output_tps", "busy_share", "closed_loop_output_tps", "efficiency",
		"scaling_efficiency", "starved_seconds_per_step",
	} {
		if _, ok := rows[0][key]; !ok {
			t.Errorf("no %s in %v", key, rows[0])
		}
	}
	if len(rows[0]) != 9 {
		t.Errorf("%d keys, want 9: %v", len(rows[0]), rows[0])
	}
}

// A machine that is the limit itself says so.
func TestACrowdedMachineIsNamed(t *testing.T) {
	t.Parallel()
	r := Result{Rows: []Row{{Engines: 1}, {Engines: 8}}, MachineBusy: []float64{0.3, 0.97},
		CachedShare: []float64{0, 0}, Cores: 2}
	warnings := r.Warnings()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "8 engines 97.0 %") {
		t.Errorf("warnings %q", warnings)
	}
}

// external is an engine of which only the address is known.
func external(t *testing.T, speed float64) string {
	t.Helper()
	cfg := enginesim.DefaultConfig()
	cfg.Speed = speed
	e, err := enginesim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestRealEnginesAreMeasuredByAddress(t *testing.T) {
	t.Parallel()
	c := quick()
	c.Counts, c.Speed = []int{1}, 1
	c.URLs = []string{external(t, 200)}
	res, err := Engines(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if res.Model != enginesim.DefaultConfig().Model || res.Rows[0].OutputTPS <= 0 {
		t.Errorf("model %q, row %+v", res.Model, res.Rows[0])
	}
	c.Model = "nobody-v1"
	if _, err := Engines(t.Context(), c); err == nil || !strings.Contains(err.Error(), `does not serve "nobody-v1"`) {
		t.Errorf("a model that is not served: %v", err)
	}
}

func TestAnEngineThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	c := quick()
	c.Counts, c.Speed, c.URLs = []int{1}, 1, []string{"http://127.0.0.1:1"}
	if _, err := Engines(t.Context(), c); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

func TestInterruptEndsAMeasurement(t *testing.T) {
	t.Parallel()
	c := quick()
	c.Window = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	c.Say = func(string, ...any) { cancel() }
	if _, err := Engines(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
}
