package bufferload

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

var update = flag.Bool("update", false, "rewrite the report in testdata")

// Two seconds of load leave nothing undone: games are finished, groups committed and trained on, all through the stores
// of the service.
func TestLoadGoesAllTheWay(t *testing.T) {
	t.Parallel()
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on the PATH; `apt-get install redis-server` has it")
	}
	cfg := DefaultConfig()
	cfg.Redis, cfg.Dir, cfg.Masters, cfg.Logs = server, t.TempDir(), []int{1}, []string{LogOff}
	cfg.Engines, cfg.Workers, cfg.Samples, cfg.Groups, cfg.Phases = 2, 2, 2, 2, 4
	cfg.Phase, cfg.Rate = 60*time.Millisecond, 900
	cfg.Idle, cfg.Warm, cfg.For, cfg.Noted = 100*time.Millisecond, 0, 2*time.Second, 2*time.Second
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	res, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	row := res.Rows[0]
	if row.Turns == 0 || row.Games == 0 || row.Groups == 0 || row.Steps == 0 {
		t.Errorf("%d turns, %d games, %d groups and %d steps in two seconds", row.Turns, row.Games, row.Groups, row.Steps)
	}
	// What is left of a second's processor time without the idle node's may be nothing on a busy machine: TestReport has
	// the sums.
	if len(row.nodes) != 1 || row.nodes[0].MainSec <= 0 || row.nodes[0].Commands <= 0 {
		t.Errorf("nodes counted %+v", row.nodes)
	}
	seen := map[string]string{}
	for _, u := range row.Uses {
		seen[u.Name] = u.Keys
	}
	for name, keys := range map[string]string{"journal append": games, "journal finish": games, "commit": account,
		"claim": account, "complete": account} {
		if seen[name] != keys {
			t.Errorf("%s worked on keys of %q, want %q: %v", name, seen[name], keys, seen)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // in the error; empty: none
	}{
		{"default", func(*Config) {}, ""},
		{"two masters are no Cluster", func(c *Config) { c.Masters = []int{2} }, "want 1, or 3"},
		{"a log that Redis has not", func(c *Config) { c.Logs = []string{"sometimes"} }, "none of off, everysec and always"},
		{"odd phases", func(c *Config) { c.Phases = 7 }, "not an even number"},
		{"more groups than a run may have", func(c *Config) { c.Rate = 1e6 }, "use more runs or samples, or a shorter phase"},
		{"the same in more runs", func(c *Config) { c.Rate, c.Runs = 1e6, 16 }, ""},
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

// A command counts once: not again for each that a script calls.
func TestCommandsBelongToKeys(t *testing.T) {
	t.Parallel()
	uses := map[[2]string]*Use{}
	for _, c := range []redis.SlowLog{
		{ClientAddr: "127.0.0.1:1", Duration: 2, Args: []string{"evalsha", "aa", "1", "millrace:{run}:run", "4"}},
		{ClientAddr: "?:0", Duration: 1, Args: []string{"HSET", "millrace:{run}:run", "x", "1"}},
		{ClientAddr: "127.0.0.1:1", Duration: 2, Args: []string{"EVALSHA", "bb", "1", "millrace:{run/1/2}:journal"}},
		{ClientAddr: "127.0.0.1:1", Duration: 2, Args: []string{"HGETALL", "millrace:{fleet}:members"}},
		{ClientAddr: "127.0.0.1:1", Duration: 2, Args: []string{"PING"}},
	} {
		note(uses, map[string]string{"aa": "claim"}, &c)
	}
	for _, want := range [][2]string{{"claim", account}, {"a script on journal", games}, {"hgetall", ofFleet},
		{"ping", other}} {
		if uses[want] == nil || uses[want].Calls != 1 {
			t.Errorf("%v is not there once: %v", want, uses)
		}
	}
	if len(uses) != 4 {
		t.Errorf("%d kinds of commands: %v", len(uses), uses)
	}
}

// The busiest node decides how much a Cluster carries, and what one run's account costs does not go away with nodes.
func TestReport(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	idle := []counters{{MainSec: 0.05, AllSec: 0.05}, {MainSec: 0.005, AllSec: 0.005}, {MainSec: 0.005, AllSec: 0.005}}
	row := func(name string, masters int, nodes ...counters) Row {
		r := Row{Redis: name, Version: "7.0.15", Masters: masters, Log: LogEverySec, WallSec: 10, Turns: 100_000, Games: 1400,
			Groups: 175, Steps: 2, GeneratorSec: 4, nodes: nodes, traced: 10_000, Uses: []Use{
				{Name: "journal append", Keys: games, Calls: 10_000, CallUs: 9},
				{Name: "commit", Keys: account, Calls: 20, CallUs: 500},
				{Name: "hgetall", Keys: ofFleet, Calls: 100, CallUs: 20},
			}}
		r.fill(cfg, idle[:len(nodes)])
		return r
	}
	res := Result{Config: cfg, Machine: processortime.ThisMachine(),
		Rows: []Row{
			row("1 node, log everysec", 1, counters{2.1, 2.6, 5e5, 1e8, 5e7, 1 << 24}),
			row("3 nodes, log everysec", 3, counters{1.1, 1.3, 2e5, 5e7, 2e7, 1 << 24},
				counters{0.51, 0.6, 2e5, 2e7, 2e7, 1 << 22},
				counters{0.51, 0.6, 2e5, 2e7, 2e7, 1 << 22}),
		}}
	var out bytes.Buffer
	if err := res.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(out.String(), "machine   "+res.Machine.String(), "machine   (this one)")
	golden := filepath.Join("testdata", "report.txt")
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
		t.Errorf("the report reads (-update writes it to %s):\n%s", golden, text)
	}
}

// A game that is told again is another one, down to the names of its trajectories.
func TestRetoldGamesAreOfTheirOwn(t *testing.T) {
	t.Parallel()
	_, played, err := recordGroup(t.Context(), 2*benchservice.PhasesPerYear, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(played[0].phases); n != 2*benchservice.PhasesPerYear {
		t.Fatalf("%d phases", n)
	}
	for i, p := range played[0].phases {
		turns := 0
		for _, trajectory := range p.after.Episode.Trajectories {
			turns += len(trajectory.Turns)
		}
		if len(p.answers) != benchservice.Powers || turns != (i+1)*benchservice.Powers {
			t.Errorf("phase %d: %d answers, and %d turns after it", i, len(p.answers), turns)
		}
	}
}
