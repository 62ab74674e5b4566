package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

const demoSpec = `
name: small
model: m
steps: 3
environment: {kind: tictactoe}
demo: {engines: 3, engine_max_num_seqs: 16, speed: 10, load: 0s, ref_logprobs: 0s, train: 20s, publish: 1s}
`

// TestBadSetups holds what `millrace simulate` says of what cannot be simulated, and its exit codes.
func TestBadSetups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", demoSpec)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "name a file with -f"},
		{"diplomacy-7b", 2, "millrace plan diplomacy-7b"},
		{"-f " + dir, 1, "is a directory; name a file in it"},
		{"-f " + dir + "/nothing.yaml", 1, "no such file or directory; examples are in config/setups"},
		{"-f " + file("empty.yaml", ""), 1, "empty.yaml: the file is empty"},
		{"-f " + file("huge.yaml", "name: "+strings.Repeat("x", 70<<10)), 1, "more than a file of this kind has"},
		{"-f " + file("junk.yaml", "\x00\x01\xff{["), 1, "junk.yaml"},
		{"-f " + file("none.yaml", demoSpec+"fleet: {engines: 0}"), 1, "none.yaml:7:9: fleet.engines: 0 is less than 1"},
		{"-f " + good + " -o yaml", 2, "use table or json"},
		{"-f " + good + " --seeds 0", 2, "want 1 to 1000"},
		{"-f " + good + " --steps -1", 2, "want at least 1"},
		{"-f " + good + " --steps 4", 2, "--set steps=4"},
		{"-f " + good + " --set fleet.engines", 1, `want KEY=VALUE, such as buffer.depth=4, not "fleet.engines"`},
		{"-f " + good + " --set fleet.engines=0", 1, "--set: fleet.engines: 0 is less than 1"},
		{"-f " + good + " --set fleet.engins=4", 1, "--set: fleet.engins: unknown key; did you mean fleet.engines?"},
		{"-f " + good + " --set buffer.depth=2 --set buffer.depth=3", 1, "--set: buffer.depth: given twice; keep one"},
		{"-f " + good + " --seed -1", 1, "seed: -1 is less than 0"},
		{"-f " + file("recorded.yaml", demoSpec+"workload: {recorded: {file: /nowhere.json}}"), 1,
			"recorded.yaml:7:23: workload.recorded.file: open /nowhere.json: no such file or directory"},
		{"-f " + file("no-record.yaml", demoSpec+"workload: {recorded: {file: "+good+"}}"), 1,
			"no-record.yaml:7:23: workload.recorded.file: " + good},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			args := append([]string{"simulate"}, strings.Fields(tt.args)...)
			code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.says) || stdout.Len() > 0 {
				t.Errorf("exit code %d, says %q; want %d and %q", code, stderr.String(), tt.code, tt.says)
			}
		})
	}
}

// pretended is a simulator that leaves a record of each step, a second longer for each seed.
func pretended(_ context.Context, s sim.Setup, _ sim.Options) (sim.Result, error) {
	var records []steprecord.StepRecord
	for i := range s.Steps {
		train := 2 + float64(s.Seed)
		records = append(records, steprecord.StepRecord{Step: rollout.Step(i), Done: true, Trainer: steprecord.StepReport{
			WallSec: train, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: train}}})
	}
	r := sim.Result{Input: diagnosis.Input{Spec: s.Spec, Over: true, Records: records},
		Wall: time.Duration(s.Steps) * 2 * time.Second, Games: 12}
	r.Totals.EngineSec, r.Totals.BusySec, r.Totals.Input = 3600, 900, 6000
	return r, nil
}

func simulated(t *testing.T, o simulateOptions) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := environment{cli.Deps{Stdin: strings.NewReader(demoSpec), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv}}
	o.file = "-"
	if err := simulateRun(t.Context(), env, o, pretended); err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}

// TestSimulatedRunSaysWhatItIs: a run spec is simulated with what its demo section says, and the output says what was
// assumed, that nothing was measured, and of which hardware it is.
func TestSimulatedRunSaysWhatItIs(t *testing.T) {
	t.Parallel()
	text := simulated(t, simulateOptions{format: "table", seeds: 1})
	for _, want := range []string{
		"SIMULATED: run small on 3 engines of profile a100-80gb",
		"fleet.engines         3         from demo.engines",
		"fleet.time_factor     0.1       from demo.speed",
		"trainer.train         2s        from demo.train",
		"fleet.profile         a100-80gb by default",
		"STEP  WALL s  WAIT",
		"25 % busy",
		"1000 input/s",
		"1 GPU-hours",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// TestSeveralSeedsAreCompared: each seed is simulated, and the differences are told with an interval.
func TestSeveralSeedsAreCompared(t *testing.T) {
	t.Parallel()
	text := simulated(t, simulateOptions{format: "table", seeds: 3, set: []string{"seed=7"}})
	for _, want := range []string{"3 seeds (simulated)", "seed 7.", "10 7.5 - 12.5 9 11"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// TestSimulationAsJSON: the document has the setup, which is a setup's file again, the records and the report.
func TestSimulationAsJSON(t *testing.T) {
	t.Parallel()
	var document struct {
		Simulated bool
		Setup     json.RawMessage
		Records   []steprecord.StepRecord
		Report    diagnosis.Report
		Seeds     []seedTotals
	}
	text := simulated(t, simulateOptions{format: "json", seeds: 2, set: []string{"fleet.engines=5"}})
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	if !document.Simulated || len(document.Records) != 3 || len(document.Seeds) != 2 || document.Report.Run != "small" {
		t.Errorf("%+v", document)
	}
	again := environment{cli.Deps{Stdin: bytes.NewReader(document.Setup), Getenv: os.Getenv}}
	setup, assumed, err := again.readSetupFile("-", nil)
	if err != nil || len(assumed) != 0 || setup.Fleet.Engines != 5 || setup.Fleet.TimeFactor != 0.1 {
		t.Errorf("read again: %+v, assumed %v, %v", setup.Fleet, assumed, err)
	}
}

// TestSimulatedRecord: what --record writes is read again as the record of a live run is.
func TestSimulatedRecord(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run.json", "run.json.gz"} {
		path := filepath.Join(t.TempDir(), name)
		var stdout, stderr bytes.Buffer
		args := []string{"simulate", "-f", "../../config/setups/seed-004-a100.yaml", "--record", path, "--steps", "5"}
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatal(stderr.String())
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		record, err := runrecord.Read(path, file)
		if err != nil || len(record.Done()) != 5 || len(record.Engines) != 2 || record.Run.Spec.Name != "seed-004-a100" {
			t.Errorf("%+v, %v", record, err)
		}
	}
}

// TestRecordIntoDevice: what is no file, such as /dev/null, is written to and not replaced, whoever is allowed to.
func TestRecordIntoDevice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("needs a file system with named pipes:", err)
	}
	read := make(chan error, 1)
	go func() {
		file, err := os.Open(pipe)
		if err == nil {
			_, err = runrecord.Read(pipe, file)
			file.Close()
		}
		read <- err
	}()
	var stdout, stderr bytes.Buffer
	args := []string{"simulate", "-f", "../../config/setups/seed-004-a100.yaml", "--record", pipe, "--steps", "2"}
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe became %v, %v", info, err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// TestNextCommands: they keep the settings of the command that they follow, and a shell takes them as they are.
func TestNextCommands(t *testing.T) {
	t.Parallel()
	got := simulateCommand("my setups/it's.yaml", []string{"buffer.depth=3", "fleet.events=[{step: 4}]"})
	want := `millrace simulate -f 'my setups/it'\''s.yaml' --set buffer.depth=3 --set 'fleet.events=[{step: 4}]'`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, command := range []string{"simulate", "plan --engines 4 --depth 1 --seeds 1"} {
		var stdout, stderr bytes.Buffer
		args := strings.Fields(command + " -f ../../config/setups/seed-004-a100.yaml --set trainer.train=140s")
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatal(stderr.String())
		}
		if want := "-f ../../config/setups/seed-004-a100.yaml --set trainer.train=140s --set "; !strings.Contains(
			stdout.String(), want) {
			t.Errorf("%s says nothing of the setting: %s", command, stdout.String())
		}
	}
}

// TestRecordedGamesArePlayedAgain: a setup may take the games of a record, here of a simulated run, which are as long.
func TestRecordedGamesArePlayedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run.json.gz")
	simulate := func(args ...string) seedTotals {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{"simulate", "-f", "../../config/setups/seed-004-a100.yaml", "-o", "json"}, args...)
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatal(stderr.String())
		}
		var document simulation
		if err := json.Unmarshal(stdout.Bytes(), &document); err != nil {
			t.Fatal(err)
		}
		return document.Seeds[0]
	}
	drawn := simulate("--record", path)
	again := simulate("--set", "workload={recorded: {file: "+path+"}}")
	if math.Abs(again.LevelSec/drawn.LevelSec-1) > 0.05 || again.Games != drawn.Games {
		t.Errorf("drawn %+v, recorded %+v", drawn, again)
	}
}

// TestSameSetupSameBytes: what a simulation prints depends on its setup alone.
func TestSameSetupSameBytes(t *testing.T) {
	t.Parallel()
	var first string
	for range 2 {
		var stdout, stderr bytes.Buffer
		args := []string{"simulate", "-f", "../../config/examples/tictactoe.yaml", "--seeds", "2"}
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatal(stderr.String())
		}
		if first == "" {
			first = stdout.String()
		} else if first != stdout.String() {
			t.Errorf("first\n%s\nthen\n%s", first, stdout.String())
		}
	}
}

// TestEveryKeyIsOffered: a shell completes --set with the keys of the table.
func TestEveryKeyIsOffered(t *testing.T) {
	t.Parallel()
	offered, _ := completeSetupKeys(nil, nil, "")
	for _, want := range []string{"fleet.engines=\t", "buffer.depth=\t", "trainer.train=\t", "overheads.call=\t"} {
		if !strings.Contains(strings.Join(offered, "\n"), want) {
			t.Errorf("%s is not offered", want)
		}
	}
}
