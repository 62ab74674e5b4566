package saturation

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/processortime"
)

var update = flag.Bool("update", false, "rewrite the reports in testdata")

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // in the error; empty: none
	}{
		{"default", func(*Config) {}, ""},
		{"two masters are no Cluster", func(c *Config) { c.Masters = 2 }, "want 1, or 3"},
		{"no workers", func(c *Config) { c.Workers = 0 }, "workers: 0 is less than 1"},
		{"a load that falls", func(c *Config) { c.Depths = []int{4, 2} }, "does not raise the load"},
		{"more groups than a run may have", func(c *Config) { c.Groups = 100 }, "1500"},
		{"deeper than a run may be", func(c *Config) { c.Depths = []int{4, 64, 96} }, "depths: 96 steps of 2 groups"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := DefaultConfig()
			tt.change(&cfg)
			err := cfg.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A modelled engine grows slower with each request, and by less than it has more of them.
func TestPace(t *testing.T) {
	t.Parallel()
	alone, full := pace(1, 24), pace(256, 24)
	if alone < 300*time.Millisecond || full <= alone || full > 256*alone/8 {
		t.Errorf("an answer of 24 tokens takes %v alone and %v among 256", alone, full)
	}
}

func level(games int, turns int64, workers ...float64) Level {
	l := Level{Games: games, WallSec: 10, Turns: turns, TurnsPerSec: float64(turns) / 10, Steps: 3,
		TurnsByEngine: []int64{turns / 2, turns - turns/2}, GamesByWorker: map[string]float64{"a": 30, "b": 34},
		Processes: map[string]float64{"redis": 0.4, "redis-1": 0.2, "redis-2": 0.2, "temporal": 2, "server": 0.2, engines: 3}}
	for i, sec := range workers {
		l.Processes["worker-"+string(rune('0'+i))] = sec
	}
	for _, sec := range l.Processes {
		l.UsedCores += sec / l.WallSec
	}
	return l
}

func TestReport(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	for file, levels := range map[string][]Level{
		"grows.txt": {level(64, 4000, 1, 1.2), level(256, 9000, 2, 2.2)},
		"full.txt":  {level(64, 4000, 1, 1.2), level(256, 20_000, 6, 6.2), level(512, 20_500, 6, 6.4)},
	} {
		res := Result{Config: cfg, Levels: levels, Machine: processortime.ThisMachine()}
		res.Cores = 2
		var out bytes.Buffer
		if err := res.WriteText(&out); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(out.String(), res.Machine.String(), "(this one)")
		golden := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s: the report reads (-update writes it):\n%s", file, text)
		}
	}
}
