package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/settingstest"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// valid is a spec with nothing wrong.
func valid() runspec.Spec {
	s := Default()
	s.Name, s.Model, s.Steps = "demo", "m", 9
	s.Environment.Kind = "tictactoe"
	Complete(&s, func(string) bool { return false })
	return s
}

func TestEveryFieldHasItsRow(t *testing.T) {
	t.Parallel()
	settingstest.Hold(t, keys, reflect.TypeFor[runspec.Spec]())
	s := valid()
	if faults := Validate(s, settings.Reading{}); len(faults) > 0 {
		t.Errorf("the defaults are refused: %v", faults)
	}
}

// TestBoundsOfKeysAreTheDomains: the table and the packages that a spec is made for agree on its bounds.
func TestBoundsOfKeysAreTheDomains(t *testing.T) {
	t.Parallel()
	for path, most := range map[string]int64{
		"steps": runspec.MaxSteps, "group.samples": runspec.MaxEpisodes, "group.min_samples": runspec.MaxEpisodes,
		"group.oversample": runspec.MaxEpisodes, "dispatch.group_per_engine": runspec.MaxEpisodes,
		"buffer.depth": runspec.MaxDepth, "buffer.groups_per_step": runspec.MaxOutstanding,
		"buffer.max_staleness": runspec.MaxStaleness,
	} {
		if key, _ := keys.Key(path); key.Max == nil || *key.Max != float64(most) {
			t.Errorf("%s: the bound is not %d", path, most)
		}
	}
}

// example is a value that a key takes and that is not its default.
func example(t *testing.T, key settings.Key) any {
	t.Helper()
	v := key.Of(&runspec.Spec{})
	for _, word := range key.OneOf {
		if v.Kind() != reflect.String || word == key.Standard(v.Type()).String() {
			continue
		}
		return word
	}
	switch {
	case len(key.OneOf) > 0:
		return 8
	case v.Type() == reflect.TypeFor[rollout.Duration]():
		return "7s"
	case v.Kind() == reflect.Int, v.Kind() == reflect.Int64:
		return 3
	case v.Kind() == reflect.Float64:
		return 0.5
	case v.Kind() == reflect.String:
		return "/seven"
	case v.Kind() == reflect.Bool:
		return true
	case v.Kind() == reflect.Slice:
		return []any{"v0"}
	}
	return []any{1}
}

// Every row takes a value through its path, gives it back, and is in the schema with its text; every live one is in
// the schema of changes, and a change of it is read.
func TestEveryRowIsUsed(t *testing.T) {
	t.Parallel()
	schema, changes := string(Schema()), ChangeSchema()
	for _, key := range keys.Keys {
		doc, err := json.Marshal(key.Doc)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(schema, strings.Trim(string(doc), `"`)) && !strings.HasPrefix(key.Path, "environment.") {
			t.Errorf("%s is not in the schema", key.Path)
		}
		if v := key.Of(&runspec.Spec{}); !v.IsValid() || v.Kind() == reflect.Struct || key.Path == "policies" ||
			key.Path == "environment.kind" {
			continue
		}
		s := valid()
		tree := settings.Plain(example(t, key))
		if faults := keys.Set(&s, key.Path, tree); len(faults) > 0 {
			t.Errorf("%s: %v", key.Path, faults)
		}
		if got := settings.Plain(key.Of(&s).Interface()); !reflect.DeepEqual(got, tree) {
			t.Errorf("%s: %v went in and %v came out", key.Path, tree, got)
		}
		if Hash(s) == Hash(valid()) {
			t.Errorf("%s is no part of the identity", key.Path)
		}
		if key.Live {
			checkLive(t, key, changes)
		}
	}
}

func checkLive(t *testing.T, key settings.Key, schema map[string]any) {
	t.Helper()
	value, before := example(t, key), valid()
	before.Group.MinSamples = 2
	patch := map[string]any{}
	settings.Put(patch, key.Path, value)
	names := []any{patch}
	for _, body := range names {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		var c Change
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		after, err := c.Apply(before)
		if err != nil || key.Text(&after) == key.Text(&before) {
			t.Errorf("%s: %s, %v", text, key.Text(&after), err)
		}
		if edits := c.Edits(before, after); len(edits) != 1 || edits[0].Path != key.Path ||
			edits[0].After != key.Text(&after) {
			t.Errorf("%s: edits %v", text, edits)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func numbered(n int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

// Bad values give one error with path, value, bound and nearest key.
func TestChangesAreRefusedInTheWordsOfAFile(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]string{
		`{"buffer":{"depth":65}}`:           "buffer.depth: 65 is more than 64",
		`{"buffer":{"max_staleness":1001}}`: "buffer.max_staleness: 1001 is more than 1000",
		`{"steps":1000001}`:                 "steps: 1000001 is more than 1000000",
		`{"steps":0}`:                       "steps: 0 is less than 1",
		`{"buffer":{"on_stale":"dorp"}}`: "buffer.on_stale: dorp is not one of drop, keep, wait; did " +
			"you mean drop?",
		`{"buffer":{"dpeth":4}}`: "buffer.dpeth: unknown key; did you mean buffer.depth?",
		`{"buffer":{"size":4}}`: "buffer.size: unknown key; the buffer holds buffer.depth times " +
			"buffer.groups_per_step groups",
		`{"dpeth":4}`:                               "dpeth: unknown key; did you mean buffer.depth?",
		`{"buffer":{"depth":"8"}}`:                  `buffer.depth: want a whole number, not the text "8"; take the quotes off`,
		`{"buffer":{"depth":4.5}}`:                  "buffer.depth: want a whole number, not the number 4.5",
		`{"buffer":4}`:                              "buffer: want keys with values, not the number 4",
		`{"group":{"samples":4,"min_samples":5}}`:   "group.min_samples: 5 is more than group.samples, which is 4",
		`{"group":{"min_samples":7},"paused":true}`: "group.min_samples: 7 is more than group.samples, which is 6",
		`{"group":{"samples":1,"min_samples":1,"zero_variance":"drop"}}`: "group.zero_variance: drop needs group.min_samples " +
			"of 2 or more, " +
			"not 1: a single episode has no variance, so that every group would be dropped",
		`{"buffer":{"depth":40,"groups_per_step":50}}`: "buffer.depth: 40 times groups_per_step 50 is 2000 outstanding groups; " +
			"1500 is the most",
		`{"name":"other"}`: "name: stays as it is while the run goes on; live are " +
			strings.Join(liveNames(), ", "),
		`{"environment":{"size":4}}`: "environment.size: stays as it is while the run goes on; live are " +
			strings.Join(liveNames(), ", "),
		`{"bufer":{"depth":4}}`:                                 "bufer: unknown key; did you mean buffer?",
		`{"buffer":{"depth":{"a":1}}}`:                          "buffer.depth: want a whole number, not keys with values",
		`{"buffer.depth":3,"buffer":{"depth":4}}`:               "buffer.depth: given twice; keep one",
		`{"buffer":{"depth":3,"depth":4}}`:                      "buffer.depth: given twice; keep one",
		`{"buffer":{"depth":3},"buffer":{}}`:                    "buffer: given twice; keep one",
		`{"buffer":{"depth":"NaN"}}`:                            `buffer.depth: want a whole number, not the text "NaN"`,
		`{"buffer":{"on_stale":""}}`:                            `buffer.on_stale: "" is not one of drop, keep, wait`,
		`{"steps":null}`:                                        "steps: is missing: optimizer steps of the whole run",
		`{"group":{"samples":2000,"min_samples":null}}`:         "group.samples: 2000 is more than 1024",
		`{"group":{"samples":"8","min_samples":8}}`:             `group.samples: want a whole number, not the text "8"; take the quotes off`,
		"{" + strings.Join(numbered(101, `"k%d":1`), ",") + "}": "101 keys; a change has 100 at most",
		`{"buffer":{"depth":4,"max_bytes":"2GiB"}}`:             "",
		`{"buffer":{"depth":null}}`:                             "",
		`{"group":{"min_samples":null}}`:                        "",
		`{"group":{}}`:                                          "",
	} {
		var c Change
		err := json.Unmarshal([]byte(patch), &c)
		if faults := c.Validate(); want == "" && len(faults) > 0 {
			t.Errorf("%s is refused for any run: %v", patch, faults)
		}
		if err == nil {
			_, err = c.Apply(valid())
		}
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", patch, err, want)
		}
	}
	old := valid() // a run that an earlier version took, with a value that none would take now
	old.Buffer.MaxStaleness, old.Group.ZeroVariance = 5000, ""
	if _, err := (Change{Set: settings.Patch{"buffer.depth": 3}}).Apply(old); err != nil {
		t.Errorf("a change is refused for what was wrong before: %v", err)
	}
}

func TestChangesAreDescribed(t *testing.T) {
	t.Parallel()
	c, err := ParseChange([]string{"group.grace=20s", "buffer.depth=4", "buffer.max_bytes=2GiB"})
	if err != nil {
		t.Fatal(err)
	}
	c.Paused = ptr(false)
	after, err := c.Apply(valid())
	want := "set group.grace=20s (was 0s) buffer.depth=4 (was 2) buffer.max_bytes=2147483648 (was 0) resume"
	if got := c.Describe(valid(), after); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// The hash of a spec stays what it is: runs that go on are known by it.
func TestHashIsStable(t *testing.T) {
	t.Parallel()
	const want = "1-a2bc1b9d19604af99e96844d0627fa67ff7d49ad17174294465d7265c5e1e4bc"
	s := valid()
	s.Environment.Options = json.RawMessage(`{"b": 1.0, "a": {"y": 2, "x": [1e2]}}`)
	if got := Hash(s); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	other := s
	other.Environment.Options = json.RawMessage(`{"a":{"x":[100],"y":2},"b":1}`)
	other.Buffer.Order, other.Group.ZeroVariance, other.PolicyRefresh = "", "", ""
	if Hash(other) != want {
		t.Error("the order of keys, the spelling of a number or a default left out changes the hash")
	}
	other.Steps++
	if Hash(other) == want {
		t.Error("another spec has the same hash")
	}
}

// A change goes to workers, and into histories, as it was asked for.
func TestChangesAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]string{
		`{"buffer":{"depth":3,"max_bytes":null}}`: `{"buffer":{"depth":3,"max_bytes":null}}`,
		`{"group":{"grace":null},"paused":false}`: `{"group":{"grace":null},"paused":false}`,
	} {
		var c Change
		if err := json.Unmarshal([]byte(patch), &c); err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(c); err != nil || string(text) != want {
			t.Errorf("%s is written as %s, want %s; %v", patch, text, want, err)
		}
	}
}

// FuzzChange: a change is judged as the changed file would be, and means the same when it was sent and read again.
func FuzzChange(f *testing.F) {
	for _, patch := range []string{
		`{"buffer":{"depth":3},"group":{"grace":"5s"},"paused":true}`, `{"group":{"samples":2,"min_samples":9}}`,
		`{"buffer":{"on_stale":null,"max_bytes":"1KiB"}}`,
		`{"steps":-1}`, `{"x":{"y":{}}}`, `{"buffer":{"depth":1e3}}`, `[]`, `{"policies":[{}]}`,
	} {
		f.Add(patch)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		var c Change
		if json.Unmarshal([]byte(patch), &c) != nil {
			return
		}
		before := valid()
		after, err := c.Apply(before)
		if before.Name != valid().Name || Hash(before) != Hash(valid()) {
			t.Fatal("the spec before was changed")
		}
		sent, marshalled := json.Marshal(c)
		var again Change
		if marshalled != nil || json.Unmarshal(sent, &again) != nil {
			t.Fatalf("%s became %s: %v", patch, sent, marshalled)
		}
		if same, errAgain := again.Apply(before); Hash(same) != Hash(after) || (err == nil) != (errAgain == nil) {
			t.Errorf("%s: %v; sent as %s: %v", patch, err, sent, errAgain)
		}
		if err != nil {
			return
		}
		text, _ := json.Marshal(after)
		tree, _ := settings.Decode(text)
		file := Default()
		if faults := append(keys.Read(tree, &file), Validate(file, settings.Reading{})...); len(faults) > 0 ||
			Hash(file) != Hash(after) {
			t.Errorf("%s is taken, and the file that says so is not: %v", patch, faults)
		}
	})
}
