package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/config"
	gamekinds "github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	speckeys "github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
)

var update = flag.Bool("update", false, "write the files under schema and testdata instead of comparing them")

// environments are the real ones.
func environments() specfile.Environments { return gamekinds.ValidateOptions() }

func TestReferenceSpec(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("examples/diplomacy-qwen7b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := specfile.ReadFor(environments(), "diplomacy-qwen7b.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	want := speckeys.Default()
	want.Name, want.Model, want.Steps = "diplomacy-qwen7b", "Qwen/Qwen2.5-7B-Instruct", 12
	want.Environment = runspec.Environment{Kind: "diplomacy",
		Options: json.RawMessage(`{"horizon_years":3,"train":"all","warmup_phases":{"max":6,"min":0}}`)}
	want.Group.MinSamples = 6
	want.Sampling.Temperature, want.Sampling.MaxTokens = 0.8, 120
	want.Adapters = runspec.AdapterSpec{Rank: 32, PathPrefix: "/tmp/adapters", Probes: runspec.ProbesOptional}
	want.Timeouts.Completion, want.Timeouts.Episode = rollout.Duration(time.Minute), rollout.Duration(15*time.Minute)
	if !reflect.DeepEqual(got.Spec, want) {
		t.Errorf("got  %+v\nwant %+v", got.Spec, want)
	}
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(filepath.Base(file), "service") {
			_, err = config.ReadService(file, data, func(string) string { return "" })
		} else {
			_, err = specfile.ReadFor(environments(), file, data)
		}
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestBadFiles reads every testdata/*.bad.yaml and compares all faults with the file's .want.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case strings.HasPrefix(name, "service"):
				_, err = config.ReadService(name, data, func(string) string { return "" })
			case strings.HasPrefix(name, "setup"):
				_, _, err = setup.Read(name, data, nil)
			default:
				_, err = specfile.ReadFor(environments(), name, data)
			}
			var faults settings.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("got %v, want faults", err)
			}
			compare(t, strings.TrimSuffix(file, ".yaml")+".want", []byte(err.Error()+"\n"))
		})
	}
}

// compare checks got against a committed file; -update writes it.
func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; -update writes it again\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestSchemasAreCommitted(t *testing.T) {
	t.Parallel()
	compare(t, "schema/run.schema.json", specfile.Schema())
	compare(t, "schema/service.schema.json", config.ServiceSchema())
	compare(t, "schema/setup.schema.json", sim.Schema())
}

// minimal is the least that a spec must say.
const minimal = "name: a\nmodel: m\nsteps: 3\nenvironment: {kind: tictactoe}\n"

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := specfile.ReadFor(environments(), "a", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if got.Group.MinSamples != got.Group.Samples || got.Buffer.Depth != 2 || got.Environment.Options != nil {
		t.Errorf("got %+v", got)
	}
	got, err = specfile.ReadFor(environments(), "a", []byte(minimal+"group: {samples: 3}"))
	if err != nil || got.Group.MinSamples != 3 {
		t.Errorf("min_samples does not follow samples: %+v, %v", got.Group, err)
	}
}

// TestJSONIsRead: what the service writes, it reads, to the same value.
func TestJSONIsRead(t *testing.T) {
	t.Parallel()
	spec, err := specfile.ReadFor(environments(), "a", []byte(minimal+"seed: 7\nenvironment_note: x"))
	if err == nil {
		t.Fatalf("an unknown key was taken: %+v", spec)
	}
	spec, err = specfile.ReadFor(environments(), "a",
		[]byte(strings.Replace(minimal, "tictactoe", "tictactoe, opening_moves: 2", 1)+"seed: 9007199254740993"))
	if err != nil {
		t.Fatal(err)
	}
	for _, indent := range []string{"", "  ", "\t"} {
		text, err := json.MarshalIndent(spec, "", indent)
		if err != nil {
			t.Fatal(err)
		}
		again, err := specfile.ReadFor(environments(), "body", text)
		if err != nil || !reflect.DeepEqual(spec, again) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, again, spec)
		}
	}
}

// TestFilesAndChangesAreJudgedAlike: a change is refused in the words in which the changed file would be.
func TestFilesAndChangesAreJudgedAlike(t *testing.T) {
	t.Parallel()
	for _, section := range []string{
		`"buffer":{"depth":65,"max_staleness":1001}`, `"buffer":{"depth":"8","on_stale":"dorp","max_bytes":"2GB"}`,
		`"group":{"samples":4,"min_samples":5,"grace":5}`, `"group":{"grase":"5s","zero_variance":3}`, `"steps":1000001`,
		`"steps":2.5,"buffer":{"depth":2000000}`, `"buffer":7`, `"group":{"samples":-99999999999999999999}`,
	} {
		var c speckeys.Change
		if err := json.Unmarshal([]byte("{"+section+"}"), &c); err != nil {
			t.Fatal(err)
		}
		before, err := specfile.ReadFor(environments(), "f", []byte(minimal))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Apply(before.Spec)
		file := `{"name":"a","model":"m","environment":{"kind":"tictactoe"},` + section
		if !strings.Contains(section, "steps") {
			file += `,"steps":3`
		}
		_, errFile := specfile.ReadFor(environments(), "f", []byte(file+"}"))
		if got, want := faultTexts(err), faultTexts(errFile); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s\nas a change: %q\nin a file:   %q", section, got, want)
		}
	}
}

// faultTexts is the faults of an error by key, without places.
func faultTexts(err error) []string {
	var texts []string
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		for _, fault := range many.Unwrap() {
			text := fault.Error()
			if placed, ok := fault.(*settings.Fault); ok {
				text = placed.Path + ": " + placed.Text
			}
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}

func TestUnreadableFiles(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"empty":         "",
		"only comments": "# nothing\n",
		"two documents": minimal + "---\n" + minimal,
		"a list":        "- a\n- b\n",
		"a word":        "hello",
		"junk":          "\x00\x01\xff{[",
		"tabs":          "name:\n\t- x",
		"open bracket":  "name: [a",
		"deep":          strings.Repeat("[", 100_000/2),
		"deep dashes":   strings.Repeat("- ", 30_000),
		"huge":          "name: " + strings.Repeat("x", 70<<10),
		"aliases":       "a: &a [1,1]\nb: &b [*a,*a]\nname: *b\n",
		"not a number":  minimal + "sampling: {temperature: .nan}",
		"infinite":      minimal + "sampling: {top_p: .inf}",
	} {
		_, err := specfile.ReadFor(environments(), name, []byte(data))
		var faults settings.Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Errorf("%s: got %v, want faults", name, err)
		}
	}
}

// TestFilesFromElsewhere: what editors and other programs put around YAML changes nothing.
func TestFilesFromElsewhere(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"byte order mark":       "\uFEFF" + minimal,
		"carriage returns":      strings.ReplaceAll(minimal, "\n", "\r\n"),
		"version directive":     "%YAML 1.2\n---\n" + minimal,
		"document markers":      "---\n" + minimal + "...\n",
		"a document, commented": "# first\n---\n" + minimal + "---\n# nothing more\n",
	} {
		if spec, err := specfile.ReadFor(environments(), name, []byte(data)); err != nil || spec.Name != "a" {
			t.Errorf("%s: %+v, %v", name, spec.Name, err)
		}
	}
	_, err := specfile.ReadFor(environments(), "a", []byte("\xff\xfen\x00a\x00m\x00e\x00"))
	if err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("UTF-16: %v", err)
	}
}

// TestSizes: bytes may be given in units, as on the command line.
func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1000": 1000, "2GiB": 2 << 30, "1.5 MiB": 3 << 19, `"512KiB"`: 512 << 10, "1TiB": 1 << 40,
		"2GB": -1, "2G": -1, "GiB": -1, "-1GiB": -1, "NaNGiB": -1, "1e30GiB": -1, `"5"`: -1, "2.5": -1, "-1": -1,
	} {
		spec, err := specfile.ReadFor(environments(), "a", []byte(minimal+"buffer: {max_bytes: "+text+"}"))
		if (err != nil) != (want < 0) || err == nil && spec.Buffer.MaxBytes != want {
			t.Errorf("%s: %d, %v", text, spec.Buffer.MaxBytes, err)
		}
	}
}

// TestMissingKeysHavePlaces: a fault about a key that is not there points to where it should be.
func TestMissingKeysHavePlaces(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"# a run\nmodel: m\nsteps: 1\nenvironment: {kind: tictactoe}\n":             "a:2:1: name: is missing",
		"\n\n{model: m, steps: 1, environment: {kind: tictactoe}}":                  "a:3:1: name: is missing",
		"name: a\nmodel: m\nsteps: 1\nenvironment:\n  opening_moves: 1\n":           "a:4:1: environment.kind: is missing",
		"name: a\nmodel: m\nsteps: 1\nenvironment: {kind: tictactoe}\n<<: {a: 1}\n": "a:5:1: merge keys",
		minimal + "policies:\n- path: /a\n":                                         "a:6:", // in the list's item
	} {
		_, err := specfile.ReadFor(environments(), "a", []byte(data))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", data, err, want)
		}
	}
}

func FuzzReadSpec(f *testing.F) {
	files, err := filepath.Glob("*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := specfile.ReadFor(environments(), "f", data)
		if err != nil {
			var faults settings.Faults
			if !errors.As(err, &faults) || len(faults) == 0 || spec.Name != "" {
				t.Errorf("%T %v, with spec %+v", err, err, spec)
			}
			return
		}
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := specfile.ReadFor(environments(), "f", text)
		if err != nil || speckeys.Hash(again.Spec) != speckeys.Hash(spec.Spec) {
			t.Errorf("a spec that was read is refused when written, or is another one: %v", err)
		}
	})
}

func TestServiceEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"MILLRACE_TOKENS": " correct-horse-battery, staple-of-a-second-one,", "AXIOM_TOKEN": "xaat-1",
		"TEMPORAL_ADDRESS":   "t:7233",
		"MILLRACE_REDIS_URL": "rediss://:hunter2@r:6379/1", "AXIOM_DATASET": "millrace",
	}
	got, err := config.ReadService("s", []byte("listen: 0.0.0.0:80\ntemporal: {address: \"u:1\"}\nengines: [{url: "+
		"\"http://e:8000\"}]"), func(k string) string {
		return env[k]
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Temporal.Address != "t:7233" || got.Axiom.Token.Reveal() != "xaat-1" || !got.Axiom.Enabled() ||
		len(got.Tokens) != 2 {
		t.Errorf("got %+v", got)
	}
	if want := []connections.Secret{"correct-horse-battery", "staple-of-a-second-one"}; !slices.Equal(got.Tokens, want) {
		t.Errorf("tokens: %q", got.Tokens)
	}
	shown := fmt.Sprintf("%+v %#v", got.Redacted(), got.Redacted())
	text, err := json.Marshal(got.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "xaat", "horse"} {
		if strings.Contains(shown+string(text), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if alone, err := config.ReadService("", nil, func(string) string {
		return ""
	}); err != nil || !reflect.DeepEqual(alone, config.DefaultService()) {
		t.Errorf("no file: %+v, %v", alone, err)
	}
}

// TestServiceExampleIsTheDefault keeps the commented example honest.
func TestServiceExampleIsTheDefault(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("examples/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.ReadService("service.yaml", data, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	got.Engines = nil
	if want := config.DefaultService(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
