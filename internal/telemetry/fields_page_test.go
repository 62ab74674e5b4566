package telemetry_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/telemetry"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/telemetry.md")

const page = "../../docs/telemetry.md"

// TestPageHasEveryKindAndField holds the tables of docs/telemetry.md to the kinds: go test -run Page -update rewrites
// them.
func TestPageHasEveryKindAndField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"kinds": kindsTable(t), "fields": fieldsTable(t)} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(want, begin)
		_, after, ends := strings.Cut(rest, end)
		if !found || !ends {
			t.Fatalf("%s has no %s", page, strings.TrimSpace(begin))
		}
		want = before + begin + table + end + after
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("the tables of %s are not those of the kinds: go test ./internal/telemetry -run Page -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func kindsTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| kind | is a | comes when |\n|---|---|---|\n")
	for _, k := range telemetry.Schema() {
		is := "fact"
		if k.Sample {
			is = "sample"
		}
		if k.Meaning() == "" {
			t.Errorf("kind %s has no line in kindMeanings", k.Kind)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Kind, is, k.Meaning())
	}
	return b.String()
}

// everyKinds are the fields that all rows may have.
var everyKinds = []string{"_time", "kind", "event_id", "run_id", "engine_id"}

func fieldsTable(t *testing.T) string {
	kinds := map[string][]string{}
	for _, k := range telemetry.Schema() {
		for _, f := range k.Fields {
			kinds[f.Name] = append(kinds[f.Name], "`"+k.Kind+"`")
		}
	}
	var b strings.Builder
	b.WriteString("| field | type | is | in |\n|---|---|---|---|\n")
	for _, f := range telemetry.Fields() {
		if f.Meaning() == "" {
			t.Errorf("field %s has no line in fieldMeanings", f.Name)
		}
		in := strings.Join(kinds[f.Name], " ")
		if slices.Contains(everyKinds, f.Name) {
			in = "all"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, f.Meaning(), in)
	}
	return b.String()
}
