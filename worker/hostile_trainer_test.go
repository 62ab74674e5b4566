package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// abuse is one thing that a trainer must not get away with. A new one is a line in one of the tables below.
type abuse struct {
	name   string
	method string
	path   string // under the run
	body   string
	want   []int // status; any of them
}

// adapterAbuses are directories that must not be published: each makes one below the prefix, named after it, or names
// one elsewhere.
func adapterAbuses(d *deployment) []abuse {
	prefix := filepath.Join(d.dir, "adapters")
	var all []abuse
	publish := func(name, path string) {
		body, _ := json.Marshal(map[string]string{"path": path}) // strings only
		all = append(all, abuse{"publish " + name, "PUT", "/policies/1", string(body), []int{http.StatusUnprocessableEntity}})
	}
	for name, path := range map[string]string{
		"outside": "/etc", "a file outside": "/etc/passwd", "outside, not there": "/nowhere/at/all", "dots": prefix +
			"/../../etc/passwd",
		"dots that stay": prefix + "/x/../y", "the prefix itself": prefix, "the prefix's twin": prefix + "-twin/x",
		"relative":     "adapters/x",
		"a hub's name": "someone/their-lora", "a URL": "http://127.0.0.1:9/x", "spaces": "   ",
		"a line break": prefix + "/a\nb",
		"a zero byte":  prefix + "/a\x00b", "an escape": prefix + "/\x1b[31m", "a name too long": prefix + "/" +
			strings.Repeat("x", 300),
		"a path too long": prefix + "/" + strings.Repeat("x/", 3000),
	} {
		publish(name, path)
	}
	for name, spoil := range map[string]func(dir, config, weights string) error{
		"a FIFO for weights":          func(_, _, w string) error { return syscall.Mkfifo(w, 0o600) },
		"a FIFO for a configuration":  func(_, c, _ string) error { return syscall.Mkfifo(c, 0o600) },
		"weights that are /dev/zero":  func(_, _, w string) error { return os.Symlink("/dev/zero", w) },
		"a configuration without end": func(_, c, _ string) error { return os.Symlink("/dev/zero", c) },
		"weights outside":             func(_, _, w string) error { return os.Symlink("/etc/passwd", w) },
		"weights outside, not there":  func(_, _, w string) error { return os.Symlink("/nowhere/at/all", w) },
		"weights in a circle":         func(_, _, w string) error { return os.Symlink(filepath.Base(w), w) },
		"a folder for weights":        func(_, _, w string) error { return os.Mkdir(w, 0o700) },
		"a terabyte of nothing":       func(_, _, w string) error { return sparse(w, 1<<40) },
		"a huge configuration":        func(_, c, _ string) error { return sparse(c, 1<<34) },
		"no weights":                  func(string, string, string) error { return nil },
		"a configuration of junk":     func(_, c, _ string) error { return os.WriteFile(c, []byte("\x00{"), 0o600) },
		"a deep configuration": func(_, c, _ string) error {
			return os.WriteFile(c, bytes.Repeat([]byte("["), 1<<19), 0o600)
		},
		"a rank without end": func(_, c, _ string) error {
			return os.WriteFile(c, []byte(`{"r":9223372036854775807,"target_modules":["q"]}`), 0o600)
		},
		"a rank below nothing": func(_, c, _ string) error {
			return os.WriteFile(c, []byte(`{"r":-1,"lora_alpha":1,"target_modules":["q"]}`), 0o600)
		},
	} {
		dir := d.adapter(name, name)
		config, weights := filepath.Join(dir, "adapter_config.json"), filepath.Join(dir, "adapter_model.safetensors")
		spoiled := weights
		if strings.Contains(name, "configuration") || strings.Contains(name, "rank") {
			spoiled = config
		}
		if err := os.Remove(spoiled); err != nil {
			d.t.Fatal(err)
		}
		if err := spoil(dir, config, weights); err != nil {
			d.t.Fatal(err)
		}
		publish(name, dir)
	}
	slices.SortFunc(all, func(a, b abuse) int { return strings.Compare(a.name, b.name) })
	return all
}

func sparse(name string, size int64) error {
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(name, size)
}

// callAbuses are claims, records and publications that contradict what was agreed. good is an adapter that could be
// published.
func callAbuses(good string) []abuse {
	const (
		bad, invalid, conflict = http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusConflict
		large                  = http.StatusRequestEntityTooLarge
	)
	path := strconv.Quote(good)
	record := func(rest string) string { return `{"generation":1,"wall_seconds":1` + rest + `}` }
	return []abuse{
		{"a version that skips one", "PUT", "/policies/3", `{"path":` + path + `}`, []int{conflict}},
		{"version 0", "PUT", "/policies/0", `{"path":` + path + `}`, []int{invalid}},
		{"version -1", "PUT", "/policies/-1", `{"path":` + path + `}`, []int{invalid}},
		{"the last version that there is", "PUT", "/policies/9223372036854775807", `{"path":` + path + `}`, []int{conflict}},
		{"a version beyond", "PUT", "/policies/9223372036854775808", `{"path":` + path + `}`, []int{invalid, bad}},
		{"a publication of a replaced trainer", "PUT", "/policies/1", `{"path":` + path + `,"generation":7}`, []int{conflict}},
		{"a publication without a path", "PUT", "/policies/1", `{}`, []int{invalid}},
		{"a path that is no text", "PUT", "/policies/1", `{"path":["/a"]}`, []int{invalid}},
		{"a claim far ahead", "POST", "/steps/40/claim?generation=1", "", []int{conflict}},
		{"a claim below nothing", "POST", "/steps/-1/claim?generation=1", "", []int{invalid}},
		{"a claim of a replaced trainer", "POST", "/steps/0/claim?generation=9", "", []int{conflict}},
		{"a claim without a generation", "POST", "/steps/0/claim", "", []int{conflict}},
		{"a rank outside of its world", "POST", "/steps/0/claim?generation=1&rank=2&world=2", "", []int{invalid}},
		{"a world without end", "POST", "/steps/0/claim?generation=1&rank=0&world=9223372036854775807", "",
			[]int{invalid, conflict}},
		{"a wait without end", "POST", "/steps/0/claim?generation=1&wait=1e300", "", []int{invalid}},
		{"a wait below nothing", "POST", "/steps/0/claim?generation=1&wait=-5", "", []int{invalid}},
		{"a record of what was never claimed", "PUT", "/steps/30", record(""), []int{conflict}},
		{"a record of a replaced trainer", "PUT", "/steps/0", `{"generation":7,"wall_seconds":1}`, []int{conflict}},
		{"a time below nothing", "PUT", "/steps/0", `{"generation":1,"wall_seconds":-1}`, []int{invalid}},
		{"a phase below nothing", "PUT", "/steps/0", record(`,"phases":{"train":-1}`), []int{invalid}},
		{"a number that is none", "PUT", "/steps/0", record(`,"metrics":{"loss":NaN}`), []int{invalid, bad}},
		{"a number too large", "PUT", "/steps/0", record(`,"metrics":{"loss":1e999}`), []int{invalid, bad}},
		{"metrics that are no numbers", "PUT", "/steps/0", record(`,"metrics":{"loss":"x"}`), []int{invalid}},
		{"metrics of a megabyte", "PUT", "/steps/0", record(`,"metrics":` + manyMetrics(40_000)), []int{invalid, large}},
		{"metrics of ten megabytes", "PUT", "/steps/0", record(`,"metrics":` + manyMetrics(400_000)), []int{large}},
		{"a trainer that resumes ahead", "POST", "/trainer", `{"resume_from":30}`, []int{conflict, invalid}},
		{"a trainer that resumes below nothing", "POST", "/trainer", `{"resume_from":-1}`, []int{invalid}},
		{"JSON without end", "PUT", "/steps/0", strings.Repeat("[", 100_000), []int{bad, invalid}},
	}
}

func manyMetrics(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\"a metric number %06d\":%d", i, i)
	}
	b.WriteByte('}')
	return b.String()
}

// Whatever a trainer sends, it is told no, soon and without a hint of what lies outside; nothing of it takes hold, the
// worker stays small, and the same run goes on for a trainer that behaves.
func TestHostileTrainer(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.simulated(2)
	w := d.worker()
	spec := d.spec(d.run, servedModel, 50)
	spec.Group = runspec.GroupSpec{Samples: 2, MinSamples: 2}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 1
	spec.Adapters.PathPrefix = filepath.Join(d.dir, "adapters")
	good := d.adapter("good", "1")
	abuses := slices.Concat(adapterAbuses(d), callAbuses(good))
	d.start(spec)
	run := "/v1/runs/" + string(d.run)
	d.engineIs("e1", "ready", readyWith(""))
	if attached := d.call("POST", run+"/trainer", "{}"); attached.status != http.StatusOK {
		t.Fatalf("attach: %s", attached)
	}
	for _, a := range abuses {
		began := time.Now()
		answer := d.call(a.method, run+a.path, a.body)
		if !slices.Contains(a.want, answer.status) {
			t.Errorf("%s: %s; want %v", a.name, answer, a.want)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: answered after %v", a.name, took)
		}
		if bytes.Contains(answer.body, []byte("root:")) || bytes.Contains(answer.body, []byte("no such file")) {
			t.Errorf("%s: %s tells what is there", a.name, answer)
		}
	}
	d.served(d.publish(1, good))
	d.until("a batch", func() error {
		if claimed := d.call("POST", run+"/steps/0/claim?generation=1&wait=5", ""); claimed.status != http.StatusOK {
			return fmt.Errorf("claim: %s", claimed)
		}
		return nil
	})
	if recorded := d.call("PUT", run+"/steps/0", `{"generation":1,"wall_seconds":1}`); recorded.status != http.StatusCreated {
		t.Errorf("record: %s", recorded)
	}
	d.refused(d.call("PUT", run+"/steps/0", `{"generation":1,"wall_seconds":2}`), http.StatusConflict)
	if peak := peakMemory(t, w.cmd.Process.Pid); peak > 300<<20 {
		t.Errorf("the worker took %d MiB", peak>>20)
	}
}

// peakMemory is the most that a process has had in memory, in bytes; 0 where the system does not tell.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Logf("the worker's memory is not known: %v", err)
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	return 0
}
